"""Which runs are one series, and what their figures are together."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.report_runs import config_of, results_of, write_run
from tests.support.training_runs import small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.report.numbers import GAP
from tpnet_dist.report.result_charts import result_chart
from tpnet_dist.report.run import Run, read_run
from tpnet_dist.report.series import Series, Spread, differing_settings, have_one_log, series_of


def run_of(folder: Path, config: Config, ap: float = 0.9) -> Run:
    return read_run(write_run(folder, config, results_of(ap)))


def test_runs_that_differ_in_the_seed_alone_are_one_series(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / f"seed-{seed}", config_of(seeds=(seed,)), ap)
        for seed, ap in enumerate((0.9, 0.91, 0.95))
    ]
    [series] = series_of(runs)
    assert (series.name, series.seeds) == ("seed-0 and 2 more", [0, 1, 2])
    figure = series.figure("test", "transductive", "random", "ap")
    assert figure is not None
    assert figure.mean == pytest.approx(0.92)
    # by hand: deviations 0.02, 0.01 and 0.03 from the mean, over two
    assert figure.std == pytest.approx((0.0014 / 2) ** 0.5)


def test_the_same_seed_again_is_another_series(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / name, config_of()) for name in "ab"]
    assert [series.name for series in series_of(runs)] == ["a", "b"]


def test_what_changes_no_result_divides_no_series(tmp_path: Path) -> None:
    other = config_of(seeds=(1,), timeout=60.0)
    other = replace(other, checkpoint=replace(other.checkpoint, keep=9))
    assert len(series_of([run_of(tmp_path / "a", config_of()), run_of(tmp_path / "b", other)])) == 1


def test_settings_that_differ_divide_series_and_are_named(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / str(rate), config_of(learning_rate=rate)) for rate in (1e-4, 1e-3)]
    found = series_of(runs)
    assert len(found) == 2
    assert differing_settings(found) == {"training.learning_rate": [1e-4, 1e-3]}


def test_models_differ_in_settings_that_one_of_them_has_alone(tmp_path: Path) -> None:
    tpnet = config_of()
    mixer = replace(tpnet, model=GraphMixerConfig())
    found = series_of([run_of(tmp_path / "a", tpnet), run_of(tmp_path / "b", mixer)])
    differing = differing_settings(found)
    assert differing["model.name"] == ["tpnet", "graphmixer"]
    assert differing["model.scale"] == [True, GAP]
    assert differing["model.time_gap"] == [GAP, 2000]
    assert "memory.hops" not in differing


def test_runs_trained_on_different_logs_of_one_folder_are_no_series(tmp_path: Path) -> None:
    log = str(small_log(tmp_path / "log", events=300))
    runs = [
        read_run(write_run(tmp_path / name, config_of(log, seeds=(seed,)), results_of(0.9), log_id=name))
        for seed, name in enumerate(("old", "new"))
    ]
    found = series_of(runs)
    assert [series.name for series in found] == ["old", "new"]
    assert not have_one_log(found)
    assert differing_settings(found) == {"data.folder": [f"{log}, log old", f"{log}, log new"]}


def test_a_log_that_was_moved_between_runs_is_one(tmp_path: Path) -> None:
    runs = [
        read_run(write_run(tmp_path / place, config_of(place, seeds=(seed,)), results_of(0.9), log_id="it"))
        for seed, place in enumerate(("here", "there"))
    ]
    assert len(series_of(runs)) == 1


def test_seeds_of_one_run_count_one_by_one(tmp_path: Path) -> None:
    by_seed = {str(seed): results_of(ap) for seed, ap in ((3, 0.8), (5, 0.9))}
    config = config_of(seeds=(3, 5))
    run = read_run(write_run(tmp_path / "run", config, {**results_of(0.85), "seeds": by_seed}))
    figure = Series((run,)).figure("test", "inductive", "historical", "ap")
    assert figure is not None
    assert (figure.mean, figure.count) == (pytest.approx(0.75), 2)


def test_a_single_seed_has_no_deviation_and_an_absent_figure_is_none(tmp_path: Path) -> None:
    series = Series((run_of(tmp_path / "run", config_of()),))
    assert series.figure("test", "transductive", "random", "ap") == Spread(0.9, None, 1)
    assert series.figure("test", "transductive", "random", "mrr") is None
    assert (
        Series((read_run(write_run(tmp_path / "young")),)).figure("test", "inductive", "random", "ap") is None
    )


def test_a_seed_without_results_is_counted_apart(tmp_path: Path) -> None:
    young = read_run(write_run(tmp_path / "young", config_of(seeds=(1,))))
    [series] = series_of([run_of(tmp_path / "done", config_of()), young])
    assert (series.seeds, series.unfinished_seeds) == ([0], [1])
    several, one = (result_chart([each], "ap", None) for each in (series, Series(series.runs[:1])))
    assert several is not None and one is not None
    assert "this run" not in [entry.label for entry in several.legend]
    assert "this run" in [entry.label for entry in one.legend]
    again = run_of(tmp_path / "again", config_of(seeds=(1,)))
    assert len(series_of([*series.runs, again])) == 2
