"""What a rank plans for its slice: the ranks' slices make up the batch, pieces make up the slice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.event_logs import random_log, write_log
from tests.support.given_negatives import GivenNegatives
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.lookup import LinkLookup
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.batches.run_data import chunks_of
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.events.batch_plan import plan_by_events, plan_by_timestamps
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EventColumns
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.models.link_batch import Hop
from tpnet_dist.models.spec import Needs, Sampling
from tpnet_dist.neighbors.build import build_neighbor_index
from tpnet_dist.neighbors.sharded import ShardedNeighbors

EVENTS, NODES, NEIGHBORS = 90, 12, 3


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EventLog:
    return random_log(tmp_path_factory.mktemp("planner"), EVENTS, NODES)


def planner_of(log: EventLog, rank: int = 0, num_ranks: int = 1) -> LinkPlanner:
    index = build_neighbor_index(lambda: chunks_of(EventView(log, 0, len(log))), 0, NODES)
    return LinkPlanner(
        slices=BatchSlices.of(None, rank, num_ranks, "cpu"),
        negatives=[GivenNegatives(np.arange(EVENTS, dtype=np.int32) % NODES)],
        lookup=LinkLookup(
            log=log,
            neighbors=ShardedNeighbors(index, NODES, LocalExchange()),
            needs=Needs(neighbors=NEIGHBORS),
            sample_key=SampleKey(0, 0),
        ),
    )


def planner_with(log: EventLog, **changed: Any) -> LinkPlanner:
    planner = planner_of(log)
    return replace(planner, lookup=replace(planner.lookup, **changed))


def requests_of(
    planner: LinkPlanner, batch_size: int = 20, **options: object
) -> list[MemoryRequest[PlannedLinks]]:
    view = EventView(planner.lookup.log, 0, EVENTS)
    return list(planner.requests(view, plan_by_events(EVENTS, batch_size), **options))  # type: ignore[arg-type]


def ends_of(requests: list[MemoryRequest[PlannedLinks]]) -> torch.Tensor:
    return torch.cat([request.note.nodes_U[request.note.blocks[0].ends_BS] for request in requests])


def test_ends_are_the_events_and_their_negatives(log: EventLog) -> None:
    events = log.read(0, EVENTS)
    wanted = np.stack([events.src, events.dst, np.arange(EVENTS) % NODES], axis=1)
    assert torch.equal(ends_of(requests_of(planner_of(log))), torch.from_numpy(wanted).long())


@pytest.mark.parametrize("num_ranks", [2, 3, 25])
def test_slices_of_all_ranks_make_up_each_batch(log: EventLog, num_ranks: int) -> None:
    whole = requests_of(planner_of(log))
    parts = [requests_of(planner_of(log, rank, num_ranks)) for rank in range(num_ranks)]
    for number, request in enumerate(whole):
        of_ranks = [part[number] for part in parts]
        assert torch.equal(ends_of(of_ranks), ends_of([request]))
        events = torch.cat([part.note.events_B for part in of_ranks])
        assert torch.equal(events, request.note.events_B)


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_pieces_make_up_the_slice_and_only_the_last_records(log: EventLog, num_ranks: int) -> None:
    counts = set()
    for rank in range(num_ranks):
        planner = planner_of(log, rank, num_ranks)
        pieces = requests_of(planner, events_per_piece=3)
        assert torch.equal(ends_of(pieces), ends_of(requests_of(planner)))
        assert sum(len(request.events) > 0 for request in pieces) == len(requests_of(planner))
        assert all(len(request.note) <= 3 for request in pieces)
        counts.add(len(pieces))
    assert len(counts) == 1  # every rank enters every collective


def test_neighbours_are_those_strictly_before_the_event(log: EventLog) -> None:
    events = log.read(0, EVENTS)
    for request in requests_of(planner_of(log)):
        for row, event in enumerate(request.note.events_B.tolist()):
            for end, node in enumerate(request.note.nodes_U[request.note.blocks[0].ends_BS[row]].tolist()):
                assert found_neighbors(request.note, row, end) == literal_neighbors(events, node, event)


def found_neighbors(planned: PlannedLinks, row: int, end: int) -> list[tuple[int, float]]:
    block = planned.blocks[0]
    mask = block.neighbor_mask_BSM[row, end]
    ids, elapsed = planned.nodes_U[block.neighbors_BSM[row, end][mask]], block.elapsed_BSM[row, end][mask]
    return list(zip(ids.tolist(), elapsed.tolist(), strict=True))


def literal_neighbors(events: EventColumns, node: int, event: int) -> list[tuple[int, float]]:
    return met_before(events, node, events.time[event])[-NEIGHBORS:]


def met_before(events: EventColumns, node: int, before: float) -> list[tuple[int, float]]:
    """Whom a node met, and how long before that time."""
    met = []
    for src, dst, time in zip(events.src, events.dst, events.time, strict=True):
        if time < before:
            since = float(before - time)
            met += [(int(dst), since)] * int(src == node) + [(int(src), since)] * int(dst == node)
    return met


@pytest.mark.parametrize("sampling", ["recent", "uniform"])
def test_neighbours_of_neighbours_come_before_the_interaction_that_made_them_so(
    log: EventLog, sampling: Sampling
) -> None:
    planner = planner_with(log, needs=Needs(neighbors=NEIGHBORS, hops=3, sampling=sampling))
    events = log.read(0, EVENTS)
    for request in requests_of(planner):
        planned = request.note
        block, (second, third) = planned.blocks[0], planned.hops
        assert block.hop_rows_BSM is not None and second.rows_VM is not None and third.rows_VM is None
        mask, row_A = block.neighbor_mask_BSM.flatten(), block.hop_rows_BSM.flatten()
        assert torch.equal(row_A > 0, mask)
        assert torch.equal(second.nodes_V[row_A[mask]], block.neighbors_BSM.flatten()[mask])
        time_A = (torch.tensor(events.time)[planned.events_B][:, None, None] - block.elapsed_BSM).flatten()
        time_V = torch.zeros(len(second.nodes_V), dtype=torch.float64).index_copy_(0, row_A, time_A)
        for row in range(1, len(second.nodes_V)):
            node = int(planned.nodes_U[second.nodes_V[row]])
            met = met_before(events, node, float(time_V[row]))
            found = found_in_row(planned.nodes_U, second, row)
            assert found == met[-NEIGHBORS:] if sampling == "recent" else set(found) <= set(met)
        assert (third.nodes_V[second.rows_VM][second.mask_VM] == second.neighbors_VM[second.mask_VM]).all()


def test_the_first_row_of_a_hop_is_nobody_and_others_are_told_apart(log: EventLog) -> None:
    planner = planner_with(log, needs=Needs(neighbors=NEIGHBORS, hops=2), dropout=SampleKey(0, 0))
    for request in requests_of(planner):
        [hop] = request.note.hops
        assert not hop.mask_VM[0].any() and (hop.elapsed_VM[0] == 0).all()
        assert hop.dropout_keys_V is not None
        assert len(hop.dropout_keys_V.unique()) == len(hop.nodes_V)
        # a neighbour at a time is one row, in however many slots it is
        assert len(hop.nodes_V) <= 1 + int(request.note.blocks[0].neighbor_mask_BSM.sum())


def found_in_row(nodes_U: torch.Tensor, hop: Hop, row: int) -> list[tuple[int, float]]:
    mask = hop.mask_VM[row]
    ids, elapsed = nodes_U[hop.neighbors_VM[row][mask]], hop.elapsed_VM[row][mask]
    return list(zip(ids.tolist(), elapsed.tolist(), strict=True))


def test_equal_times_in_several_batches_are_recorded_together(tmp_path: Path) -> None:
    log = random_log(tmp_path, EVENTS, NODES)
    times = log.read(0, EVENTS).time
    view, plan = EventView(log, 0, EVENTS), plan_by_timestamps([times], 1)
    requests = list(planner_of(log).requests(view, plan))
    _, sizes = np.unique(times, return_counts=True)
    assert len(requests) == EVENTS
    assert [len(request.events) for request in requests if len(request.events)] == sizes.tolist()
    for request in requests:
        assert request.events.time_B.unique().numel() <= 1


def test_rows_are_read_at_the_last_recorded_time_with_a_padding_node(log: EventLog) -> None:
    planner = planner_with(log, padding_node=NODES)
    before = 0.0
    for request in requests_of(planner):
        assert (request.note.read_time_B == before).all()
        before = float(request.events.time_B[-1])
        block = request.note.blocks[0]
        assert (request.note.nodes_U[block.neighbors_BSM[~block.neighbor_mask_BSM]] == NODES).all()


def asking_for_the_longest(log: EventLog, slots: int = 50) -> LinkPlanner:
    return planner_with(log, needs=Needs(neighbors=slots, longest_history=True))


@pytest.mark.parametrize("events_per_piece", [None, 3])
def test_pieces_know_the_longest_history_of_their_whole_batch(
    log: EventLog, events_per_piece: int | None
) -> None:
    events, batch_size = log.read(0, EVENTS), 20
    destinations = (events.src, events.dst, np.arange(EVENTS) % NODES)
    requests = requests_of(asking_for_the_longest(log), batch_size, events_per_piece=events_per_piece)
    assert len(requests) > (5 if events_per_piece else 4)
    for planned in (request.note for request in requests):
        longest_BS = planned.blocks[0].longest_BS
        assert longest_BS is not None
        start = int(planned.events_B[0]) // batch_size * batch_size
        batch = range(start, min(start + batch_size, EVENTS))
        wanted = [
            max(len(met_before(events, nodes[event], events.time[event])) for event in batch)
            for nodes in destinations
        ]
        assert longest_BS.tolist() == [wanted] * len(planned)


def test_the_longest_history_is_not_longer_than_there_are_slots(log: EventLog) -> None:
    blocks = [request.note.blocks[0] for request in requests_of(asking_for_the_longest(log, slots=4))]
    assert max(int(block.longest_BS.max()) for block in blocks if block.longest_BS is not None) == 4


def test_in_float32_times_are_rounded_before_they_are_subtracted(tmp_path: Path) -> None:
    start = 2**30 + 5
    log = write_log(tmp_path, [0, 0, 0], [1, 1, 1], [start, start + 50, start + 133])
    rounded = planner_with(log, needs=Needs(neighbors=2, float32_times=True))
    exact = planner_of(log)
    view = EventView(log, 0, 3)
    [[found], [plain]] = (list(each.requests(view, plan_by_events(3, 3))) for each in (rounded, exact))
    times = np.array([start, start + 50, start + 133], np.float64)
    then = times.astype(np.float32).astype(np.float64)
    block = found.note.blocks[0]
    assert block.own_elapsed_B is not None
    assert block.own_elapsed_B.tolist() == (times - then).tolist()
    assert block.elapsed_BSM[2, 0].tolist() == (times[2] - then[:2]).tolist()
    assert plain.note.blocks[0].own_elapsed_B is None
    assert plain.note.blocks[0].elapsed_BSM[2, 0, -2:].tolist() == [133.0, 83.0]
