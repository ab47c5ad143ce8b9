"""The study of timescales: which runs it plans, how it judges them, and the classifier on inner products."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.study import refuse_others
from benchmarks.study_logs import StudyLog
from benchmarks.timescale_products import Choice, choices, fitted, products_of
from benchmarks.timescales import Accuracy, Settings, judge, plan_runs
from tests.support.training_runs import small_log
from tpnet_dist.config.schema import Batching
from tpnet_dist.config.toml_files import write_config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import split_log
from tpnet_dist.events.timescales import timescales_of


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EventLog:
    return EventLog(small_log(tmp_path_factory.mktemp("timescales") / "mine"))


def test_each_seed_of_each_choice_is_a_run_of_its_own(log: EventLog, tmp_path: Path) -> None:
    settings = Settings(data=("",), out=tmp_path, grid=(1e-7, 1e-5), ablations=True)
    runs = plan_runs(settings, StudyLog("mine", log.folder))
    assert len({run.path for run in runs}) == len(runs) == 2 * 5
    slow, fast = timescales_of(split_log(log).train)
    decays = {run.choice: run.config().memory.decay for run in runs}
    assert (decays["auto"], decays["1e-07"], decays["1e-05"]) == ("auto", 1e-7, 1e-5)
    assert decays["three timescales"] == pytest.approx((slow, (slow * fast) ** 0.5, fast), rel=5e-3)
    assert [run.choice for run in runs if run.config().model.cross_timescales] == [
        "products across timescales"
    ] * 2
    assert all(run.config().training.precision == "bfloat16" and not run.is_finished for run in runs)


def test_a_repeated_command_goes_on_with_runs_that_took_their_timescales_from_the_log(
    log: EventLog, tmp_path: Path
) -> None:
    runs = plan_runs(Settings(data=("",), out=tmp_path, seeds=(0,)), StudyLog("mine", log.folder))
    [run] = [run for run in runs if run.choice == "auto"]
    run.path.mkdir(parents=True)
    own = run.config()
    # as training writes it
    write_config(replace(own, memory=replace(own.memory, decay=(1e-7, 1e-5))), run.path / "config.toml")
    before = (run.path / "config.toml").read_bytes()
    refuse_others(runs)
    assert (run.path / "config.toml").read_bytes() == before


def test_a_log_with_a_preset_is_compared_with_it_too(log: EventLog, tmp_path: Path) -> None:
    runs = plan_runs(Settings(data=("",), out=tmp_path, seeds=(0,)), StudyLog("uci", log.folder))
    [preset] = [run for run in runs if run.choice == "preset"]
    assert preset.config().memory.decay == 1e-7
    assert len(runs) == 7


@pytest.mark.parametrize(("auto", "is_allowed"), [(0.9, True), (0.8971, True), (0.8969, False)])
def test_auto_is_held_against_the_grids_best_on_the_test_part(auto: float, is_allowed: bool) -> None:
    one = Accuracy(
        log="uci", batching="events", choice="auto", seeds=1, val=0.99, test=auto, inductive_test=None
    )
    others = {"preset": 0.88, "1e-08": 0.7, "1e-06": 0.9, "three timescales": 0.95}
    figures = [one, *(replace(one, choice=choice, test=test) for choice, test in others.items())]
    verdict = judge("uci", figures)
    assert verdict is not None and verdict["best single λ"] == "1e-06"
    assert verdict["is allowed"] == is_allowed
    assert verdict["auto above it"] == pytest.approx(auto - 0.9)
    assert verdict["auto above the preset"] == pytest.approx(auto - 0.88)
    assert judge("wikipedia", figures) is None


@pytest.mark.parametrize("batching", ["events", "timestamps"])
def test_a_classifier_learns_from_inner_products(log: EventLog, batching: Batching) -> None:
    assert choices(log, (1e-6,))[0] == Choice("1e-06", (1e-6,))
    for choice, inputs in (
        (Choice("one", (1e-6,)), 3 * 16),
        (Choice("two", (1e-7, 1e-5)), 3 * 31),
        (Choice("all", (1e-7, 1e-5), crosses=True), 3 * 49),
    ):
        parts = [*products_of(log, choice, batching)]
        assert sum(len(part.inputs_B2I) for part in parts) <= len(log)
        assert all(part.inputs_B2I.shape[1:] == (2, inputs) for part in parts)
        assert all(0.5 < ap < 1 for ap in fitted(parts, seed=0, epochs=3))
