"""`benchmarks.efficiency`: every model measured, trained and drawn; nothing of it twice."""

import json
from pathlib import Path

import pytest

from benchmarks import efficiency
from benchmarks.efficiency_rank import ENCODING_SPANS, PhaseSpeed, Shares, Speed, _speed
from benchmarks.efficiency_rows import efficiency_sheets, rows_of
from benchmarks.finished_runs import read_runs
from tests.support.command_line import Done, run_here, sentence_of
from tests.support.training_runs import small_log
from tests.unit.benchmarks.written_runs import write_run
from tpnet_dist.config.paper_values import paper_value
from tpnet_dist.spans import RELATIVE_ENCODING

TINY = """
[memory]
width = 8
[models.tpnet]
neighbors = 2
time_width = 4
channels = 8
mixer_layers = 1
[models.graphmixer]
neighbors = 2
time_width = 4
channels = 8
mixer_layers = 1
[training]
batch_size = 20
[evaluation]
batch_size = 20
"""
SHARES = Shares(neighbors=0.25, relative_encoding=0.5)


@pytest.fixture
def command(tmp_path: Path) -> list[object]:
    log = small_log(tmp_path / "uci", events=400)
    (tmp_path / "tiny.toml").write_text(TINY)
    models = ["--models", "tpnet", "graphmixer", "--config", tmp_path / "tiny.toml", "--cores", 1]
    return ["--data", log, *models, "--turns", 1, "--turn-steps", 1, "--out", tmp_path / "out"]


def refusal(*args: object) -> str:
    return sentence_of(run_here(efficiency.main, *args), efficiency.PROGRAM)


def lines_of(done: Done) -> dict[str, dict[str, object]]:
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["benchmark"] == "efficiency"
    return {line["model"]: line for line in last["results"]["models"]}


def test_models_are_measured_and_trained_once(command: list[object], tmp_path: Path) -> None:
    lines = lines_of(run_here(efficiency.main, *command, "--steps", 2))
    assert list(lines) == ["tpnet", "graphmixer"]
    for line in lines.values():
        assert line["epochs"] == 1
        assert 0 < line["test_ap"] <= 1  # type: ignore[operator]
        for phase in ("training", "scoring"):
            assert 0 < line[phase]["shares"]["neighbors"] < 1  # type: ignore[index]
    shares = {
        name: line[phase]["shares"]["relative_encoding"]  # type: ignore[index]
        for name, line in lines.items()
        for phase in ("training", "scoring")
    }
    assert 0 < shares["tpnet"] < 1
    assert shares["graphmixer"] == 0
    assert (tmp_path / "out/efficiency-uci.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "out/efficiency-uci.svg").read_text()
    assert "<!-- GraphMixer" in drawn
    # nothing of it a second time, and a third model can join
    again = run_here(efficiency.main, *command, "--steps", 2)
    assert lines_of(again) == lines
    assert again.stderr.count("measured before") == 2


def test_an_epoch_is_the_median_step_times_its_batches(tmp_path: Path) -> None:
    speed = PhaseSpeed(step_p50=0.5, step_p90=0.6, tpnet_p50=0.25, times_tpnet=2.0, shares=SHARES)
    write_run(tmp_path / "a", {0: 0.9}, model="graphmixer")
    results = {one.model: one for one in read_runs((tmp_path,))}
    speeds = {name: Speed(7, speed, speed) for name in ("graphmixer", "tcl")}
    mixer, tcl = rows_of(speeds, results, "uci", 200, 40)
    assert (mixer.training_epoch, mixer.scoring_epoch) == (100.0, 20.0)
    assert (mixer.test_ap, mixer.inductive_test_ap, mixer.epochs) == (0.9, pytest.approx(0.8), 3)
    paper = paper_value("uci", "transductive", "random", "ap", model="tcl")
    assert paper is not None
    assert (tcl.test_ap, tcl.paper_ap) == (None, paper.mean)
    speeds_shown, aps_shown = efficiency_sheets([mixer], "uci")
    figures = ("0.500", "2.00", "25.0%", "50.0%")
    assert speeds_shown.rows == [
        ("GraphMixer", "training", "100.0", *figures, "1.628"),
        ("GraphMixer", "scoring", "20.0", *figures, "0.923"),
    ]
    assert aps_shown.rows == [("GraphMixer", "7", "0.9000", "0.8000", "0.9325", "3")]


def test_turns_are_compared_one_by_one() -> None:
    # the machine was three times as slow in the second turn, and busy in one step of the third
    own, tpnet = [[2.0, 2.0], [6.0, 6.0], [2.0, 9.0]], [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]]
    speed = _speed(own, tpnet, SHARES)
    assert (speed.times_tpnet, speed.step_p50, speed.tpnet_p50) == (2.0, 4.0, 1.0)


def test_rows_of_the_memory_are_relative_encodings_too() -> None:
    assert set(ENCODING_SPANS) == {RELATIVE_ENCODING, "borrow", "read", "record"}


def test_what_cannot_be_measured_gets_one_sentence(command: list[object], tmp_path: Path) -> None:
    refusal(*command, "--steps", 2, "--epochs", 2)
    refusal(*command, "--turns", 0)
    refusal(*command, "--turn-steps", 50)
    assert not (tmp_path / "out").exists()
