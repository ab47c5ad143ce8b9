"""Whose settings a run may go on with, and that it has one writer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rank_pool import world_of_one
from tests.support.report_runs import results_of, whole_results
from tests.support.sentences import refused
from tpnet_dist.config.schema import Config
from tpnet_dist.evaluation.results import results_from_json
from tpnet_dist.files.folder_lock import folder_lock
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.training.run_folder import RunFolder

RESULTS = results_from_json(whole_results(results_of(0.9), Config()))


def changed(**sections: dict[str, Any]) -> Config:
    config = Config()
    return replace(
        config, **{name: replace(getattr(config, name), **values) for name, values in sections.items()}
    )


@pytest.fixture
def started(tmp_path: Path) -> Path:
    RunFolder.start(tmp_path / "run", Config())
    return tmp_path / "run"


@pytest.mark.parametrize(
    "sections",
    [
        {"memory": {"prefetch": 0}},
        {"checkpoint": {"every_steps": 7, "keep": 5}},
        {"training": {"timeout": 30.0}},
        {"training": {"epochs": 200, "patience": 3, "max_steps": 10}},
    ],
)
def test_a_run_goes_on_with_settings_that_change_no_result_or_only_its_length(
    started: Path, sections: dict[str, dict[str, Any]]
) -> None:
    config = changed(**sections)
    assert RunFolder.start(started, config).config() == config


@pytest.mark.parametrize("sections", [{"memory": {"hops": 2}}, {"training": {"learning_rate": 0.5}}])
def test_a_run_does_not_go_on_with_other_settings(started: Path, sections: dict[str, dict[str, Any]]) -> None:
    with refused():
        RunFolder.start(started, changed(**sections))
    assert RunFolder.open(started).config() == Config()


def test_a_run_does_not_go_on_with_another_model(started: Path) -> None:
    with refused():
        RunFolder.start(started, replace(Config(), model=GraphMixerConfig()))
    assert RunFolder.open(started).config() == Config()


def test_a_run_goes_on_with_its_data_folder_in_other_words(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    RunFolder.start(tmp_path / "run", changed(data={"folder": str(folder)}))
    RunFolder.start(tmp_path / "run", changed(data={"folder": f"{tmp_path}/elsewhere/../log/"}))
    with refused():
        RunFolder.start(tmp_path / "run", changed(data={"folder": str(tmp_path / "other")}))


def test_damaged_results_are_one_sentence(started: Path) -> None:
    (started / "results.json").write_text('{"val": ')
    with refused():
        RunFolder.open(started).results()


def test_a_finished_run_goes_on_if_it_may_last_longer(started: Path) -> None:
    RunFolder.open(started).write_results(RESULTS)
    for training in ({"epochs": 99}, {"epochs": 200, "patience": 19}, {"max_steps": 10}, {"batch_size": 9}):
        with refused():
            RunFolder.start(started, changed(training=training))
    # what changes no result is no reason to refuse, nor to rewrite the settings it was made with
    assert RunFolder.start(started, changed(memory={"prefetch": 0})).config() == Config()
    assert RunFolder.open(started).results() is not None
    longer = changed(training={"epochs": 200})
    assert RunFolder.start(started, longer).config() == longer
    assert RunFolder.open(started).results() is None


def test_an_evaluation_is_kept_only_where_it_can_stand_beside_the_runs_figures(started: Path) -> None:
    run = RunFolder.open(started)
    with refused():
        run.require_savable(Config())
    run.write_results(RESULTS)
    run.require_savable(changed(evaluation={"negatives": ("historical",), "mrr_negatives": 7}))
    for name, value in (("protocol", "stream"), ("update", False)):
        with refused():
            run.require_savable(changed(evaluation={name: value}))


def test_fresh_refuses_a_folder_with_a_run(started: Path, tmp_path: Path) -> None:
    with refused():
        RunFolder.start(started, Config(), fresh=True)
    RunFolder.start(tmp_path / "other", Config(), fresh=True)


def test_a_run_folder_has_one_writer(tmp_path: Path) -> None:
    with world_of_one() as world:
        with RunFolder.locked(tmp_path / "runs" / "one", world):
            with (
                refused(),
                folder_lock(tmp_path / "runs" / "one", patience=0.2),
            ):
                pass
            with folder_lock(tmp_path / "runs" / "two"):
                pass
        with folder_lock(tmp_path / "runs" / "one"):
            pass
