"""A log that grows, and the runs on it: they go on with what they began with, or from one another."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep.__main__ import main as data_prep_main
from tests.support.command_line import Done, run_here, sentence_of
from tests.support.training_runs import flags_of, small_config
from tpnet_dist import evaluate_command
from tpnet_dist import train as train_command
from tpnet_dist.batches.run_data import split_of
from tpnet_dist.config.toml_files import read_config
from tpnet_dist.events import EventLog
from tpnet_dist.events.split import events_of_test_part
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.training.continued import start_of

FIRST, LATER = 900, 300
PROGRAM = "python -m tpnet_dist.train"


def done(command: Any, *args: object) -> Done:
    finished = run_here(command, *args)
    assert finished.returncode == 0, finished.stderr
    return finished


def train(*args: object) -> Done:
    return done(train_command.main, *args)


def results(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "results.json").read_text())
    return {name: content[name] for name in ("val", "test", "best_epoch", "before") if name in content}


def read_metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of which a part was converted, the rest of it, a run of one epoch on the first part, one of "
    "two."""
    folder = tmp_path_factory.mktemp("grown")
    done(
        data_prep_main,
        "synth",
        folder / "all.csv",
        "--events",
        FIRST + LATER,
        "--as-csv",
        "--average-degree",
        20,
    )
    header, *rows = (folder / "all.csv").read_text().splitlines(keepends=True)
    (folder / "first.csv").write_text("".join([header, *rows[:FIRST]]))
    (folder / "later.csv").write_text("".join([header, *rows[FIRST:]]))
    done(data_prep_main, "convert", folder / "first.csv", folder / "log")
    flags = flags_of(small_config(folder / "log"))
    for epochs in (1, 2):
        train(folder / "log", *flags, "--training.epochs", epochs, "--run-dir", folder / f"run-{epochs}")
    return folder


@pytest.fixture
def grown(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to whose log the rest was appended."""
    folder = Path(shutil.copytree(base, tmp_path / "grown"))
    for config in folder.glob("run-*/config.toml"):
        config.write_text(config.read_text().replace(str(base), str(folder)))
    done(data_prep_main, "append", folder / "later.csv", folder / "log")
    monkeypatch.chdir(folder)
    return folder


def going_on(grown: Path, *args: object, run: str = "next") -> Path:
    where = ("--run-dir", grown / run)
    train(grown / "log", "--continue-from", grown / "run-1", *where, "--training.epochs", 1, *args)
    return grown / run


def test_a_run_goes_on_from_another_without_its_test_events(grown: Path) -> None:
    # at such a rate weights stay as they are, so that the other run's can be recognised
    run = going_on(grown, "--training.learning-rate", "1e-36")
    found = results(run)
    assert found["before"] == {"val": found["val"], "test": found["test"]}
    config, log = read_config(run / "config.toml"), EventLog(grown / "log")
    then = EventLog(grown / "log", log_id=log.manifest.history[0].log_id)
    old_test = events_of_test_part(then, 0.15)
    assert config.data.held_out == (old_test.start, FIRST)
    split = split_of(log, config.data)
    learned = np.concatenate([chunk.index for chunk in split.train.stream()])
    assert not np.isin(learned, np.arange(*config.data.held_out)).any()
    assert split.train.stop > old_test.start and split.test.stop == FIRST + LATER
    state = start_of(config, 0).optimizer
    steps = {int(values["step"]) for values in state.values()}
    assert len(state) > 3 and min(steps) > 3


def test_a_run_that_goes_on_can_be_repeated_and_learn_what_was_tested(grown: Path) -> None:
    run = going_on(grown)
    first = results(run)
    (grown / "run-1").rename(grown / "gone")
    (grown / "run-1").symlink_to("gone")
    (run / "results.json").unlink()
    assert results(going_on(grown)) == first
    other = going_on(grown, "--learn-old-test", run="other")
    assert read_config(other / "config.toml").data.held_out == ()
    assert results(other)["before"] != first["before"]


def test_a_finished_run_that_may_last_longer_goes_on_with_its_log(base: Path, grown: Path) -> None:
    flags = flags_of(small_config(grown / "log"))
    repeated = (grown / "log", *flags, "--run-dir", grown / "run-1", "--training.epochs")
    said = train(*repeated, 1).stderr
    assert f"first {FIRST} events" in said and "--continue-from" in said
    assert results(grown / "run-1") == results(base / "run-1")
    train(*repeated, 2)
    assert results(grown / "run-1") == results(base / "run-2")
    lines = read_metrics(grown / "run-1")
    assert [line["epoch"] for line in lines if line["kind"] == "eval"] == [1, 2]
    sentence_of(run_here(train_command.main, *repeated, 1), PROGRAM)


def test_an_evaluation_is_of_the_log_that_the_run_began_with(base: Path, grown: Path) -> None:
    out = done(evaluate_command.main, grown / "run-1", "--data", grown / "log", "--json").stdout
    assert json.loads(out)["test"] == results(base / "run-1")["test"]


def test_a_predictor_knows_appended_events_at_once(base: Path, grown: Path) -> None:
    log = EventLog(grown / "log")
    raw = log.raw_ids().column("raw_id").to_numpy()
    predictor = Predictor.load(grown / "run-1", data=grown / "log")
    assert predictor.num_events == FIRST + LATER
    assert len(raw) > log.manifest.history[0].nodes
    assert predictor.ids.find(raw[-1:], "src")[0] == len(raw) - 1
    assert Predictor.load(grown / "run-1", data=grown / "log", as_evaluated=True).num_events == FIRST


def test_appended_events_are_as_if_they_had_been_observed(base: Path, tmp_path: Path) -> None:
    """Of nodes known before: random features of others are drawn by their numbers."""
    folder = Path(shutil.copytree(base / "log", tmp_path / "log"))
    first = EventLog(folder)
    raw = first.raw_ids().column("raw_id").to_numpy()
    src, dst = raw[first.read(0, 100).src], raw[first.read(100, 200).dst]
    times = int(first.manifest.last_time) + np.arange(100)
    rows = [f"{s},{d},{t}" for s, d, t in zip(src, dst, times, strict=True)]
    (tmp_path / "later.csv").write_text("\n".join(["source,target,timestamp", *rows, ""]))
    done(data_prep_main, "append", tmp_path / "later.csv", folder)
    appended = Predictor.load(base / "run-1", data=folder)
    # the first part fills whole batches, so that its rows are those before the later events
    assert FIRST % 50 == 0
    observed = Predictor.load(base / "run-1", data=base / "log")
    observed.observe(src, dst, times)
    assert appended.now == observed.now
    assert np.array_equal(*(each.score(src, dst, appended.now) for each in (appended, observed)))


def test_what_cannot_be_gone_on_from_is_refused(grown: Path, tmp_path: Path) -> None:
    log, run = grown / "log", grown / "run-1"

    def refuse(*args: object) -> None:
        sentence_of(run_here(train_command.main, *args, "--run-dir", tmp_path / "new"), PROGRAM)
        assert not (tmp_path / "new").exists()

    refuse(log, "--continue-from", tmp_path / "nothing")
    refuse(log, "--learn-old-test")
    refuse(log, "--continue-from", run, "--training.seed", 7)
    done(data_prep_main, "convert", grown / "later.csv", grown / "other")
    refuse(grown / "other", "--continue-from", run)
    refuse(log, "--data.held-out", 5)
    (run / "checkpoints" / "seed-0" / "best.pt").unlink()
    refuse(log, "--continue-from", run)


def test_a_log_that_grew_trains_as_one_that_was_converted_at_once(tmp_path: Path) -> None:
    """Where dense ids are equal: here every node has as many events in each part."""
    nodes, count = 24, 960
    turn = np.arange(count)
    src = turn % nodes
    dst = (src + 1 + turn // nodes % (nodes - 1)) % nodes
    rows = [f"{s},{d},{t * 600}" for s, d, t in zip(src, dst, turn, strict=True)]
    borders = [0, *range(480, count, 48), count]
    for number, (start, stop) in enumerate(itertools.pairwise(borders)):
        (tmp_path / f"{number}.csv").write_text("\n".join(["src,dst,time", *rows[start:stop], ""]))
    paths = [tmp_path / f"{number}.csv" for number in range(len(borders) - 1)]
    done(data_prep_main, "convert", *paths, tmp_path / "whole")
    done(data_prep_main, "convert", paths[0], tmp_path / "grown")
    for path in paths[1:]:
        done(data_prep_main, "append", path, tmp_path / "grown")
    logs = [EventLog(tmp_path / name) for name in ("whole", "grown")]
    ids = [log.raw_ids().column("raw_id").to_pylist() for log in logs]
    assert ids[0] == ids[1] and len(logs[1].manifest.history) == 11
    flags = (*flags_of(small_config(tmp_path / "whole")), "--training.epochs", 1)
    for name in ("whole", "grown"):
        train(tmp_path / name, *flags, "--run-dir", tmp_path / f"run-{name}")
    losses = [
        [line["loss"] for line in read_metrics(tmp_path / f"run-{name}") if line["kind"] == "step"]
        for name in ("whole", "grown")
    ]
    assert losses[0] == losses[1] and losses[0]
    assert results(tmp_path / "run-whole") == results(tmp_path / "run-grown")
