"""A study goes on where it was: what is finished is not trained again, what is begun is counted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import accuracy
from benchmarks.accuracy_rows import METRICS, SETTINGS
from benchmarks.study import StudyRun, refuse_others
from benchmarks.study_logs import StudyLog
from tests.support.command_line import run_here
from tests.support.report_runs import metrics_of
from tests.support.sentences import refused
from tests.support.training_runs import small_log
from tpnet_dist import train
from tpnet_dist.files.stored_json import sealed_line

TINY = """
[memory]
width = 8
[model]
neighbors = 2
time_width = 4
channels = 8
mixer_layers = 1
[training]
batch_size = 50
[evaluation]
batch_size = 50
"""


@pytest.fixture
def settings(tmp_path: Path) -> accuracy.Settings:
    small_log(tmp_path / "data" / "uci", events=400)
    (tmp_path / "tiny.toml").write_text(TINY)
    return accuracy.Settings(
        data=(str(tmp_path / "data"),),
        config=tmp_path / "tiny.toml",
        out=tmp_path / "out",
        epochs=1,
        seeds=(0, 1),
        models=("tpnet",),
    )


def runs_of(settings: accuracy.Settings) -> list[StudyRun]:
    return accuracy.plan_runs(settings, StudyLog("uci", Path(settings.data[0]) / "uci"))


def test_a_repeated_command_trains_only_what_is_missing(settings: accuracy.Settings) -> None:
    first, second = runs_of(settings)
    # as the study would have; in this process, which is up already
    assert run_here(train.main, *first.args).returncode == 0
    before = (first.path / "results.json").stat().st_mtime_ns
    args = ["--data", *settings.data, "--config", settings.config, "--out", settings.out, "--models", "tpnet"]
    done = run_here(accuracy.main, *args, "--epochs", 1, "--seeds", 0, 1, "--ranks", 1)
    assert done.returncode == 0, (done.stderr, second.output.read_text())
    assert "2 runs, 1 of them finished before" in done.stderr
    assert (first.path / "results.json").stat().st_mtime_ns == before
    found = json.loads(done.stdout.splitlines()[-1])["results"]
    assert found["failures"] == {}
    # settings of --config belong to all variants and make no name
    seeds = {row["variant"]: tuple(row["seeds"]) for row in found["figures"]}
    assert seeds == {"TPNet": (0, 1), "EdgeBank": (), "recency": (), "popularity": ()}


def test_a_study_stops_in_time_and_shows_the_best_epoch_so_far(settings: accuracy.Settings) -> None:
    run = runs_of(replace(settings, curves=True, epochs=9))[0]
    args = ["--data", *settings.data, "--config", settings.config, "--out", settings.out, "--models", "tpnet"]
    args += ["--seeds", 0, "--epochs", 9, "--curves", "--minutes", 1e-6]
    done = run_here(accuracy.main, *args)
    assert (done.returncode, done.stdout) == (1, "")
    assert not run.path.exists()
    # three epochs of a run that is to have nine, as training leaves it when it is asked to stop
    stopped = ["3" if arg == "9" else arg for arg in run.args]
    assert run_here(train.main, *stopped).returncode == 0
    (run.path / "results.json").unlink()
    done = run_here(accuracy.main, *args)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["results"]["figures"]
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "eval"]
    best = max(epochs, key=lambda line: line["val"]["transductive"]["random"]["ap"])
    places = [(setting, "random", metric) for setting in SETTINGS for metric in METRICS]
    assert {(row["setting"], row["negatives"], row["metric"]): row["mean"] for row in rows} == {
        (setting, kind, metric): best["test"][setting][kind][metric] for setting, kind, metric in places
    }
    assert f"3, to go on | {best['epoch']} |" in (settings.out / "accuracy.md").read_text()


def test_how_far_a_run_is_stands_in_its_metrics(settings: accuracy.Settings) -> None:
    run = runs_of(settings)[0]
    assert run.progress() == (0, 1)
    run.path.mkdir(parents=True)
    lines = map(sealed_line, metrics_of(epochs=1, steps=3)[:3])
    # a last line may be half-written
    (run.path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"kind": "st')
    assert run.progress() == (3 * 50, 1)
    assert run.events() == 280


def test_variants_and_epochs_have_folders_of_their_own(settings: accuracy.Settings) -> None:
    studies = accuracy.Settings(
        data=settings.data,
        models=("graphmixer", "tpnet"),
        studies=("main", "ablations", "widths", "decays"),
        widths=(1, 2),
        seeds=(0,),
        epochs=3,
    )
    folder = Path("build/accuracy/uci-3-epochs")
    names = ["GraphMixer", "TPNet", "without-node-representations", "without-time", "without-scaling"]
    # the preset's λ, 1e-7, is TPNet as it is
    names += ["width-1", "width-2", "decay-1e-06", "decay-1e-05", "decay-0.0001"]
    assert [run.path for run in runs_of(studies)] == [folder / name / "seed-0" for name in names]


def test_a_folder_that_holds_a_run_with_other_settings_is_refused_before_training(
    settings: accuracy.Settings,
) -> None:
    run = runs_of(settings)[0]
    run.path.mkdir(parents=True)
    (run.path / "config.toml").write_text("[memory]\nwidth = 9\n")
    with refused():
        refuse_others([run])
