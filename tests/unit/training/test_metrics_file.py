"""`metrics.jsonl` as lines: whole ones alone, damaged ones named, the last one found without the others."""

from pathlib import Path

from tests.support.report_runs import metrics_of
from tpnet_dist.evaluation.results import ExchangeVolume
from tpnet_dist.files.stored_json import sealed_line
from tpnet_dist.training.metrics_file import EpochLine, StepLine, last_line, mean_exchange, read_lines


def written(path: Path, ending: str = "", steps: int = 4) -> Path:
    path.write_text("".join(f"{sealed_line(line)}\n" for line in metrics_of(steps=steps)) + ending)
    return path


def test_lines_are_steps_and_epochs(tmp_path: Path) -> None:
    lines = [line for _, line in read_lines(written(tmp_path / "metrics.jsonl"))]
    assert [type(line) for line in lines] == ([StepLine] * 4 + [EpochLine]) * 3
    step, epoch = lines[0], lines[4]
    assert isinstance(step, StepLine) and isinstance(epoch, EpochLine)
    assert (step.step, step.loss, epoch.epoch, epoch.train_loss) == (1, 1.0, 1, 0.5)
    assert epoch.val["transductive"]["random"]["ap"] == 0.91


def test_a_damaged_line_is_given_as_it_stands_and_half_a_line_is_not(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.jsonl", ending='{"kind": "step"}\n{"kind": "st')
    *whole, (text, line) = read_lines(path)
    assert (text, line) == ('{"kind": "step"}\n', None)
    assert len(whole) == 15


def test_the_last_line_is_the_last_whole_one_of_however_many(tmp_path: Path) -> None:
    for steps in (4, 2000):
        line = last_line(written(tmp_path / "metrics.jsonl", ending='{]\n{"kind": "st', steps=steps))
        assert isinstance(line, EpochLine)
        assert (line.epoch, line.step) == (3, 3 * steps)
    assert last_line(tmp_path / "absent.jsonl") is None
    assert last_line(written(tmp_path / "metrics.jsonl", steps=0)) is not None


def epoch_line(epoch: int, **exchange: float) -> EpochLine:
    return EpochLine(
        kind="eval", seed=0, epoch=epoch, step=epoch, seconds=1.0, train_loss=0.5, exchange=exchange
    )


def test_what_ranks_exchanged_is_the_mean_of_epochs_that_tell() -> None:
    lines = [
        epoch_line(1, bytes_per_event=10.0, remote_rows_held=0.5),
        epoch_line(2),
        epoch_line(3, bytes_per_event=30.0, remote_rows_held=1.0),
    ]
    assert mean_exchange(lines) == ExchangeVolume(bytes_per_event=20.0, remote_rows_held=0.75)
    assert mean_exchange(lines[1:2]) is None


def test_a_line_whose_end_or_content_was_changed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    line = sealed_line({"kind": "step", "seed": 0, "epoch": 1, "step": 2, "seconds": 0.5, "loss": 0.25})
    for text in (f"{line}\x0b", f"{line.replace('0.25', '0.75')}\n"):
        path.write_text(text)
        [(_, found)] = read_lines(path)
        assert found is None
    path.write_text(f"{line}\n{line}")  # the second one is being written
    assert len(list(read_lines(path))) == 1
