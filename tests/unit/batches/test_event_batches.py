"""What the memory records from any batch on, whichever way events are batched."""

import numpy as np
import pytest
import torch

from tests.support.event_logs import random_log
from tpnet_dist.batches.event_batches import batches_to_record
from tpnet_dist.events.batch_plan import plan_by_events, plan_by_timestamps
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView

EVENTS = 60


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EventLog:
    return random_log(tmp_path_factory.mktemp("recorded") / "log", EVENTS, 12)


@pytest.mark.parametrize("plan_of", ["events", "timestamps"])
def test_from_any_batch_on_all_events_are_recorded_that_were_not_before(log: EventLog, plan_of: str) -> None:
    view = EventView(log, 0, EVENTS)
    # batches of two: groups of equal times are cut into pieces
    plan = plan_by_events(EVENTS, 2) if plan_of == "events" else plan_by_timestamps(view.times(), 2)
    assert (plan_of == "timestamps") == bool((plan.recorded != plan.borders).any())
    for first in range(len(plan)):
        recorded = [events for _, events in batches_to_record(log, view, plan, first)]
        wanted = view.read(int(plan.recorded[first]), EVENTS).columns
        assert torch.cat([events.src_B for events in recorded]).tolist() == wanted.src.tolist()
        assert torch.cat([events.dst_B for events in recorded]).tolist() == wanted.dst.tolist()
        np.testing.assert_array_equal(
            torch.cat([events.time_B for events in recorded]).numpy(), log.seconds(wanted.time)
        )
        sizes = np.diff(plan.recorded)[first:]
        assert [len(events) for events in recorded] == sizes.tolist()
