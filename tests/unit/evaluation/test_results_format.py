"""`results.json`: what is written is read again, damage is one sentence, files without a version are read."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_runs import config_of, figures, results_of, whole_results, write_run
from tests.support.sentences import refused
from tpnet_dist.evaluation.results import (
    Conditions,
    DataInfo,
    EventCounts,
    EventsPerSecond,
    ExchangeVolume,
    Results,
    RunInfo,
    SeedResults,
    Versions,
    read_results,
    write_results,
)
from tpnet_dist.files.stored_json import sealed


def seed_results(ap: float, best_epoch: int) -> SeedResults:
    return SeedResults(
        val=figures(ap),
        test=figures(ap),
        best_epoch=best_epoch,
        epochs_run=9,
        events_per_second=EventsPerSecond(train=100.0, score=300.0),
        exchange=ExchangeVolume(bytes_per_event=512.0, remote_rows_held=0.25),
    )


RESULTS = Results(
    conditions=Conditions(
        batching="events",
        protocol="dyglib",
        update=True,
        ranks=2,
        device="cpu",
        peak_memory_bytes=7,
        peak_memory_bytes_by_rank=(5, 7),
    ),
    seeds={0: seed_results(0.8, 3), 5: seed_results(0.9, 4)},
    run=RunInfo(
        started=datetime(2026, 1, 2, 3, tzinfo=UTC),
        finished=datetime(2026, 1, 2, 4, tzinfo=UTC),
        data=DataInfo(folder="data/uci", log_id="abc", events=EventCounts(train=7, val=1, test=2), nodes=5),
        settings={"training.seeds": [0, 5], "memory.width": None},
        versions=Versions(tpnet_dist="0.1.0", torch="2.13.0", python="3.11.7"),
    ),
    baselines={"edgebank_unlimited": {"val": figures(0.6), "test": figures(0.7)}},
    others={"network": {"bytes": 3}},
)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = write_results(RESULTS, tmp_path)
    assert read_results(tmp_path) == RESULTS
    content = json.loads(path.read_text())
    assert content["version"] == 1
    assert content["test"]["transductive"]["random"]["ap"] == pytest.approx(0.85)
    assert content["standard_deviation"]["test"]["transductive"]["random"]["ap"] == pytest.approx(
        0.1 / 2**0.5
    )
    assert (content["best_epoch"], content["seeds"]["5"]["best_epoch"]) == (3.5, 4)
    assert content["run"]["settings"] == {"training.seeds": [0, 5], "memory.width": None}


def test_one_seed_has_its_own_figures_at_the_top_and_no_deviation(tmp_path: Path) -> None:
    one = replace(RESULTS, seeds={0: RESULTS.seeds[0]})
    content = json.loads(write_results(one, tmp_path).read_text())
    assert content["best_epoch"] == 3
    assert "standard_deviation" not in content
    assert content["val"] == content["seeds"]["0"]["val"]


def test_a_run_that_is_not_finished_has_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path) is None


def test_a_file_without_a_version_is_read_with_what_its_settings_say(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", config_of(seeds=(7,)))
    before = results_of(0.9)
    del before["batching"], before["update"], before["device"]
    (run / "results.json").write_text(json.dumps(before))
    found = read_results(run)
    assert found is not None and found.run is None
    assert list(found.seeds) == [7]
    assert found.mean.test == figures(0.9)
    assert (found.conditions.batching, found.conditions.update, found.conditions.device) == (
        "events",
        True,
        None,
    )


def set_at(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = to

    return change


DAMAGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "no figures": lambda content: content.pop("test"),
    "no ranks": lambda content: content.pop("ranks"),
    "no seeds": set_at("seeds", to={}),
    "a list of figures": set_at("val", to=[]),
    "a metric in words": set_at("test", "inductive", "random", "ap", to="high"),
    "a best epoch that is no number": set_at("best_epoch", to=float("nan")),
    "a best epoch of a seed": set_at("seeds", "0", "best_epoch", to=float("nan")),
    "a seed in words": set_at("seeds", to={"one": {"val": {}, "test": {}}}),
    "ranks by halves": set_at("ranks", to=1.5),
    "truth in digits": set_at("update", to=1),
    "an unknown device": set_at("device", to="tpu"),
    "a time in words": set_at("run", "started", to="yesterday"),
    "a version of text": set_at("version", to="1"),
    "a later version": set_at("version", to=2),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_sentence_with_key_value_rule_and_remedy(tmp_path: Path, name: str) -> None:
    content = json.loads(json.dumps(whole_results(results_of(0.9), config_of())))
    DAMAGED[name](content)
    run = write_run(tmp_path / "run")
    (run / "results.json").write_text(json.dumps(sealed(content)))
    with refused():
        read_results(run)


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "7", "null", '"text"', '{"version": 1}', "\xff"])
def test_what_holds_no_results_is_refused_with_a_remedy(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path / "run")
    (run / "results.json").write_text(content, encoding="latin-1")
    with refused():
        read_results(run)
