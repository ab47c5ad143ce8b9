"""What a memory gives beside its rows and brings back: self-products, snapshots."""

import pytest
import torch

from tests.reference.test_oracle import HOPS
from tests.support.memories import (
    WALKS,
    assert_state,
    batch,
    batches_from,
    copy_of_state,
    fetch_all,
    random_events,
    record,
)
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk, WalkKind

# ---- self-products ----------------------------------------------------------------------------------


def assert_products_are_current(memory: Memory) -> None:
    stored = fetch_all(memory)
    torch.testing.assert_close(stored.products_ULL, stored.rows_ULD @ stored.rows_ULD.transpose(1, 2))


@pytest.mark.parametrize("kind", WALKS)
def test_self_products_follow_the_rows_whatever_changes_them(kind: WalkKind) -> None:
    batches = batches_from(random_events(9, 60, until=300.0), 6)
    memory = Memory(9, Walk(kind, HOPS, 1e-2), 4)
    for one in batches[:6]:
        assert_products_are_current(record(memory, one))
    memory.snapshot()
    assert_products_are_current(record(memory, *batches[6:]))
    memory.restore()
    assert_products_are_current(memory)
    memory.reset(1)
    assert_products_are_current(memory)


def test_self_products_are_computed_only_if_they_are_asked_for() -> None:
    memory = Memory(4, Walk("decay", 2, 0.1), 3)
    assert memory.look(torch.tensor([0, 1]), products=False).products_ULL is None


def test_rows_read_while_scoring_may_be_recorded_afterwards() -> None:
    """What is made in inference mode cannot be changed outside it."""
    memory = Memory(4, Walk("decay", 2, 0.1), 3)
    with torch.inference_mode():
        record(memory, batch((0, 1, 1.0)))
        fetch_all(memory)
    assert_products_are_current(record(memory, batch((0, 1, 2.0))))


# ---- snapshots -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WALKS)
def test_restore_brings_the_snapshot_back_again_and_again(kind: WalkKind) -> None:
    batches = batches_from(random_events(12, 90, until=500.0), 6)
    memory = record(Memory(12, Walk(kind, HOPS, 1e-2), 4), *batches[:5])
    memory.snapshot()
    before = copy_of_state(memory)
    memory.restore()
    assert_state(memory, before)
    after = copy_of_state(record(memory, *batches[5:]))
    for _ in range(2):
        memory.restore()
        assert_state(memory, before)
        assert_state(record(memory, *batches[5:]), after)
    memory.forget_snapshot()
    assert_state(memory, after)
    memory.snapshot()
    assert_state(memory, after)
    memory.restore()
    assert_state(memory, after)


def test_a_snapshot_costs_the_rows_that_change_and_no_copy() -> None:
    memory = Memory(1000, Walk("decay", HOPS, 1e-2), 4)
    memory.snapshot()
    record(memory, batch((0, 1, 0.0)), batch((1, 2, 1.0)), batch((0, 1, 2.0)))
    undo = memory.table._undo
    assert undo is not None
    assert sum(len(nodes) for nodes, *_ in undo.entries) == 3


def test_between_plan_and_record_there_is_no_snapshot() -> None:
    memory = Memory(5, Walk("decay", HOPS, 1e-2), 4)
    plan = memory.plan([batch((0, 1, 0.0)), batch((0, 1, 1.0))])
    memory.runs.borrow(plan)
    memory.record(plan, range(1))
    with pytest.raises(AssertionError, match="not recorded yet"):
        memory.snapshot()
    memory.record(plan, range(1, 2))
    memory.snapshot()


def test_rows_are_not_borrowed_before_their_turn() -> None:
    memory = Memory(5, Walk("decay", HOPS, 1e-2), 4)
    first, second = memory.plan([batch((0, 1, 0.0))]), memory.plan([batch((1, 2, 1.0))])
    with pytest.raises(AssertionError, match="planned before are recorded"):
        memory.runs.borrow(second)
    for plan in (first, second):
        memory.runs.borrow(plan)
        memory.record(plan)


def test_a_snapshot_does_not_outlive_reset() -> None:
    memory = record(Memory(5, Walk("decay", HOPS, 1e-2), 4), batch((0, 1, 0.0)))
    memory.snapshot()
    memory.reset(1)
    with pytest.raises(AssertionError):
        memory.restore()
