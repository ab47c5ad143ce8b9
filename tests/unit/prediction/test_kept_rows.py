"""Going on where a predictor was: calls repeated in one go, rows taken from a file instead of recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.predictors import ITEMS, feature_rows, items
from tests.support.sentences import refused
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config
from tpnet_dist.memory.memory import Memory
from tpnet_dist.prediction.kept_rows import RowsFile, UnusableRows
from tpnet_dist.training.weights_file import read_state

SIZES = (1, 3, 1, 1, 45, 2, 1)
"""Of calls, one of which is more than two batches."""
NUM_EVENTS = sum(SIZES)


def later_events(predictor: Predictor) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """Newcomers on both sides, each met again; many equal times."""
    src = [f"new {n % 7}" if n % 5 == 0 else str(n % 2) for n in range(NUM_EVENTS)]
    dst = [f"thing {n % 4}" if n % 3 == 0 else "x2" for n in range(NUM_EVENTS)]
    return src, dst, predictor.now + 1 + np.arange(NUM_EVENTS) // 3, feature_rows(NUM_EVENTS)


def observe_in_calls(predictor: Predictor) -> None:
    src, dst, times, features = later_events(predictor)
    start = 0
    for size in SIZES:
        here = slice(start, start + size)
        predictor.observe(src[here], dst[here], times[here], features[here])
        start += size


def rows_of(predictor: Predictor) -> list[torch.Tensor]:
    memory = predictor._past.memory
    assert memory is not None
    return memory.recorded()


def assert_same(one: Predictor, other: Predictor) -> None:
    assert (one.now, one.num_events, one.ids.newcomers) == (other.now, other.num_events, other.ids.newcomers)
    for mine, others in zip(rows_of(one), rows_of(other), strict=True):
        assert torch.equal(mine, others)
    users = ["0", "new 0", "new 5"] * 3
    scores = [each.score(users, items(), each.now) for each in (one, other)]
    assert len(set(scores[0].tolist())) == ITEMS
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("batching", ["events", "timestamps"])
def test_calls_repeated_in_one_go_leave_the_same_bits(run: Path, config: Config, batching: str) -> None:
    by_calls, at_once = Predictor.load(run), Predictor.load(run)
    for each in (by_calls, at_once):
        each._past.config = type(config)(
            data=type(config.data)(folder=config.data.folder, batching=batching),
            evaluation=config.evaluation,
            memory=config.memory,
            model=config.model,
        )
    events = later_events(at_once)
    observe_in_calls(by_calls)
    at_once.repeat(*events, SIZES)
    assert_same(by_calls, at_once)


def test_rows_of_a_file_are_as_good_as_recorded_ones(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Predictor.load(run)
    events = later_events(first)
    half = [column[:5] for column in events]
    first.repeat(*half, SIZES[:3])
    assert first.keep_rows(tmp_path / "rows.pt", "mine") == first.num_events
    observed_later = [column[5:] for column in events]
    first.repeat(*observed_later, SIZES[3:])

    recorded = []
    catch_up = Memory.catch_up
    monkeypatch.setattr(
        Memory, "catch_up", lambda self, runs, count: recorded.append(count) or catch_up(self, runs, count)
    )
    again = Predictor.load(run, rows=RowsFile(tmp_path / "rows.pt", "mine", NUM_EVENTS))
    again.repeat(*events, SIZES)
    assert recorded == [NUM_EVENTS - 5]
    assert_same(first, again)


def test_rows_of_something_else_are_refused(run: Path, tmp_path: Path) -> None:
    predictor, path = Predictor.load(run), tmp_path / "rows.pt"
    observe_in_calls(predictor)
    assert Predictor.load(run, rows=RowsFile(path, "mine", 0)).num_events_kept == 0
    predictor.keep_rows(path, "mine")
    with refused(UnusableRows):
        Predictor.load(run, rows=RowsFile(path, "another", NUM_EVENTS))
    with refused(UnusableRows):
        Predictor.load(run, rows=RowsFile(path, "mine", NUM_EVENTS - 1))
    with refused(UnusableRows):
        Predictor.load(run, capacity=7, rows=RowsFile(path, "mine", NUM_EVENTS))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with refused(UnusableRows):
        Predictor.load(run, rows=RowsFile(path, "mine", NUM_EVENTS))


def each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[list[torch.Tensor]], object]:
    return lambda columns: [change(column) for column in columns]


CHANGES: list[tuple[str, Callable[[Any], object]]] = [
    ("more", str),
    ("rows_of", list),
    ("rows_of", lambda rows_of: {**rows_of, "seed": torch.zeros(2)}),
    ("events", float),
    ("events", torch.tensor),
    ("events", lambda count: count + 1),
    ("events", lambda count: count - NUM_EVENTS - 1),
    ("columns", lambda columns: columns[0]),
    ("columns", lambda columns: columns[:1]),
    ("columns", lambda columns: [*columns, 7]),
    ("columns", each(lambda column: column[:1])),
    ("columns", each(torch.Tensor.half)),
    ("columns", each(torch.Tensor.to_sparse)),
    ("columns", each(lambda column: column.to("meta"))),
    ("columns", lambda columns: [columns[0] * torch.nan, *columns[1:]]),
    ("columns", lambda columns: [columns[0], *(-column for column in columns[1:])]),
    ("columns", lambda columns: [columns[0], *(column / 0 for column in columns[1:])]),
]


def test_files_that_no_predictor_writes_are_refused(run: Path, tmp_path: Path) -> None:
    predictor, path = Predictor.load(run), tmp_path / "rows.pt"
    observe_in_calls(predictor)
    predictor.keep_rows(path, "mine")
    kept = read_state(path)
    for key, change in CHANGES:
        torch.save({**kept, key: change(kept.get(key))}, path)
        with refused(UnusableRows):
            Predictor.load(run, rows=RowsFile(path, "mine", NUM_EVENTS))
