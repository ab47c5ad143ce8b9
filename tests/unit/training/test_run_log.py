"""The lines of a run: each step once, whole, whatever a killed process left."""

import json
from pathlib import Path
from typing import Any

import pytest

from tpnet_dist.files.stored_json import LINE_CHECKSUM_KEY, sealed_line
from tpnet_dist.training.metrics_file import METRICS_NAME
from tpnet_dist.training.run_log import RunLog


def steps_of(folder: Path) -> list[tuple[int, int]]:
    lines = map(json.loads, (folder / METRICS_NAME).read_text().splitlines())
    return [(line["seed"], line["step"]) for line in lines]


def content_of(line: str) -> dict[str, Any]:
    return {key: value for key, value in json.loads(line).items() if key != LINE_CHECKSUM_KEY}


def write_steps(folder: Path, seed: int, after_step: int, last_step: int) -> None:
    log = RunLog(folder)
    log.start_seed(seed, after_step=after_step, after_epoch=0)
    for step in range(after_step + 1, last_step + 1):
        log.write("step", step, {"seed": seed, "epoch": 1, "loss": 0.5})
    log.close()


def test_what_was_written_after_the_checkpoint_goes_away(tmp_path: Path) -> None:
    write_steps(tmp_path, seed=0, after_step=0, last_step=5)
    write_steps(tmp_path, seed=1, after_step=0, last_step=4)
    with (tmp_path / METRICS_NAME).open("a") as lines:
        lines.write('{"kind": "step", "ste')  # killed in mid-line
    write_steps(tmp_path, seed=1, after_step=2, last_step=3)
    assert steps_of(tmp_path) == [(0, step) for step in range(1, 6)] + [(1, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize(("epochs_done", "kept"), [(1, [1]), (2, [1, 2])])
def test_figures_of_an_epoch_that_is_validated_again_go_away(
    tmp_path: Path, epochs_done: int, kept: list[int]
) -> None:
    """Stopped in validation, after step 8; then killed between its figures and the checkpoint after them."""
    log = RunLog(tmp_path)
    for epoch in (1, 2):
        log.write("step", 4 * epoch, {"seed": 0, "epoch": epoch, "loss": 0.5})
        log.write("eval", 4 * epoch, {"seed": 0, "epoch": epoch, "train_loss": 0.5})
    log.close()
    log = RunLog(tmp_path)
    log.start_seed(0, after_step=8, after_epoch=epochs_done)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["kind"] == "step"] == [1, 2]
    assert [line["epoch"] for line in lines if line["kind"] == "eval"] == kept


def test_the_clock_goes_on_where_it_stood(tmp_path: Path) -> None:
    write_steps(tmp_path, seed=0, after_step=0, last_step=2)
    lines = (tmp_path / METRICS_NAME).read_text().splitlines()
    late = [sealed_line({**content_of(line), "seconds": 1000.0 + n}) for n, line in enumerate(lines)]
    (tmp_path / METRICS_NAME).write_text("\n".join([*late, ""]))
    write_steps(tmp_path, seed=0, after_step=1, last_step=3)
    write_steps(tmp_path, seed=1, after_step=0, last_step=1)
    seconds = [json.loads(line)["seconds"] for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert seconds[0] == 1000.0
    assert seconds == sorted(seconds)


def test_each_seed_has_curves_of_its_own(tmp_path: Path) -> None:
    for seed in (0, 3):
        write_steps(tmp_path, seed=seed, after_step=0, last_step=1)
    assert {path.name for path in (tmp_path / "tensorboard").iterdir()} == {"seed-0", "seed-3"}


def test_a_damaged_line_stays_when_a_run_goes_on(tmp_path: Path) -> None:
    write_steps(tmp_path, seed=0, after_step=0, last_step=2)
    with (tmp_path / METRICS_NAME).open("a") as lines:
        lines.write("{]\n")
    write_steps(tmp_path, seed=0, after_step=1, last_step=2)
    first, damaged, second = (tmp_path / METRICS_NAME).read_text().splitlines()
    assert damaged == "{]"
    assert [json.loads(line)["step"] for line in (first, second)] == [1, 2]
