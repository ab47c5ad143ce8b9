"""What may be looked back on: in `timestamps` batching nothing of the same time, also in another piece."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.event_logs import write_log
from tpnet_dist.batches.negatives import Universe, first_unseen
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.events.batch_plan import plan_by_timestamps
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey

BATCH_SIZE = 4
# one event each at times 0 … 7, then twelve at time 8 with edges that were never seen: three pieces
SRC = np.array([*range(8), *range(12)])
DST = np.array([20] * 8 + [21] * 12)
TIME = np.array([*range(8), *[8] * 12])
GROUP_START = 8


@pytest.fixture
def view(tmp_path: Path) -> EventView:
    log = write_log(tmp_path, SRC, DST, TIME)
    return EventView(log, 0, len(log))


def test_seen_edges_are_of_an_earlier_time_not_of_another_piece(view: EventView) -> None:
    plan = plan_by_timestamps(view.times(), BATCH_SIZE)
    universe = Universe(view, before_time_group=True)
    [historical] = universe.negatives(["historical"], SampleKey(0, 0))
    pieces = [events for batch, events in view.batches(plan) if batch.start >= GROUP_START]
    assert [len(piece) for piece in pieces] == [BATCH_SIZE] * 3
    for piece in pieces:
        drawn = historical.draw(piece, slice(None))
        assert drawn.src_B is not None
        assert set(drawn.dst_BC.ravel().tolist()) == {20}


def test_events_that_the_universe_leaves_out_are_no_negatives(tmp_path: Path) -> None:
    """Of the pairs of nodes 0, 1 with 1, 2, 3 three happen at 5, two of them outside the universe."""
    log = write_log(tmp_path, np.array([1, 0, 0, 0, 1]), np.array([2, 2, 3, 1, 3]), np.array([5, 5, 5, 6, 6]))
    events = EventView(log, 0, 5, touching_nodes=np.array([False, True, False, False]))
    universe, batch = Universe(events), events.read(0, 1)
    pairs = set()
    for epoch in range(60):
        [historical] = universe.negatives(["historical"], SampleKey(0, epoch))
        drawn = historical.draw(batch, slice(None))
        assert drawn.src_B is not None
        pairs.add((int(drawn.src_B[0]), int(drawn.dst_BC[0, 0])))
    assert pairs == {(0, 1), (1, 1), (1, 3)}


def test_edge_bank_remembers_nothing_of_the_same_time(view: EventView) -> None:
    bank = EdgeBank.of(view)
    last_piece = view.read(16, 20)
    seen_earlier_in_the_group = (np.arange(4, dtype=np.int32), np.full(4, 21, np.int32))
    for before_time_group, score in ((True, 0.0), (False, 1.0)):
        before = first_unseen(last_piece, before_time_group)
        assert bank.unlimited(*seen_earlier_in_the_group, before).tolist() == [score] * 4
