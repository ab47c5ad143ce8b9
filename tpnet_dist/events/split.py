"""Train, validation and test parts by time quantile, some nodes kept out of training: DyGLib's rule."""

import bisect
import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EVENTS_PER_ROW_GROUP, EventColumns
from tpnet_dist.events.view import EventMask, EventView, NodeMask, touches

DYGLIB_SEED = 2020

PartName = Literal["val", "test"]


@dataclass(frozen=True, eq=False)
class Split:
    """train ≤ val_time < val ≤ test_time < test; events of new nodes have left the training part."""

    train: EventView
    val: EventView
    test: EventView
    val_time: float
    test_time: float
    new_nodes: NodeMask
    """The nodes sampled to be kept out of training."""
    unseen_nodes: NodeMask
    """All nodes without a training event: the new ones and those that come too late."""

    def is_inductive(self, events: EventColumns) -> EventMask:
        """Return which events touch a node unseen in training."""
        return touches(self.unseen_nodes, events)

    def inductive(self, part: EventView) -> EventView:
        """Return the inductive events of `val` or `test` alone."""
        return EventView(part.log, part.start, part.stop, touching_nodes=self.unseen_nodes)

    def known_before(self, part: PartName) -> EventView:
        """Return all events, those of new nodes too, no later than the last one of the part before: DyGLib's
        rule of what `inductive` negatives must not be."""
        before = self.train if part == "val" else self.val
        last = int(before.read(len(before) - 1, len(before)).index[0])
        times = before.log.read(last, before.stop).time
        return EventView(before.log, 0, last + int(np.searchsorted(times, times[0], side="right")))


def split_log(
    log: EventLog,
    *,
    val_share: float = 0.15,
    test_share: float = 0.15,
    new_node_share: float = 0.1,
    seed: int = DYGLIB_SEED,
    held_out: range = range(0),
) -> Split:
    """Split by time; the seed decides which nodes are kept out of training, beside the events `held_out`.
    Memory grows with nodes only."""
    _require_shares(val_share, test_share, new_node_share)
    val_time = time_quantile(log, 1 - val_share - test_share)
    test_time = time_quantile(log, 1 - test_share)
    val_start, test_start = _first_after(log, val_time), _first_after(log, test_time)
    new_nodes = _sample_new_nodes(log, val_start, new_node_share, seed)
    train = EventView(log, 0, val_start, new_nodes if new_nodes.any() else None, left_out=held_out)
    val, test = EventView(log, val_start, test_start), EventView(log, test_start, len(log))
    _require_events(log, train, val, test)
    return Split(train, val, test, val_time, test_time, new_nodes, ~_nodes_of(train))


def events_of_test_part(log: EventLog, test_share: float) -> range:
    """Return the events of the test part."""
    return range(_first_after(log, time_quantile(log, 1 - test_share)), len(log))


def time_quantile(log: EventLog, share: float) -> float:
    """Return `np.quantile` of the log's times to the last bit, from the two neighbours in the sorted log."""
    place = (len(log) - 1) * share
    left = min(int(place), len(log) - 1)
    right = min(left + 1, len(log) - 1)
    earlier, later = log.read(left, left + 1).time[0], log.read(right, right + 1).time[0]
    weight = place - left
    # numpy interpolates from the nearer side; the other side may differ in the last bit
    if weight >= 0.5:
        return float(later - (later - earlier) * (1 - weight))
    return float(earlier + (later - earlier) * weight)


def _first_after(log: EventLog, time: float) -> int:
    """Return the first event later than `time`: the block by bisection, then within it. Integers as
    float64."""

    def first_time(block: int) -> float:
        first = block * EVENTS_PER_ROW_GROUP
        return float(log.read(first, first + 1).time[0])

    num_blocks = -(-len(log) // EVENTS_PER_ROW_GROUP)
    block = max(0, bisect.bisect_right(range(num_blocks), time, key=first_time) - 1)
    start = block * EVENTS_PER_ROW_GROUP
    times = log.read(start, min(start + EVENTS_PER_ROW_GROUP, len(log))).time.astype(np.float64)
    return start + int(np.searchsorted(times, time, side="right"))


def _sample_new_nodes(log: EventLog, val_start: int, share: float, seed: int) -> NodeMask:
    """Draw from the nodes that appear after val_time, by raw id; all of them when they are too few.

    With the seed 2020, on files as DyGLib prepares them, these are the nodes DyGLib keeps out: it hands the
    same list to the same generator.
    """
    new_nodes = np.zeros(log.num_nodes, dtype=np.bool_)
    if share:
        late_nodes = _nodes_of(EventView(log, val_start, len(log)))
        num_nodes = np.count_nonzero(late_nodes | _nodes_of(EventView(log, 0, val_start)))
        by_raw_id = _order_of_raw_ids(log)
        candidates = by_raw_id[late_nodes[by_raw_id]].tolist()
        wanted = min(int(share * num_nodes), len(candidates))
        new_nodes[random.Random(seed).sample(candidates, wanted)] = True
    return new_nodes


def _order_of_raw_ids(log: EventLog) -> Positions:
    """Return the nodes sorted by what the user calls them, sources first where the log is bipartite."""
    raw_ids = log.raw_ids()
    keys = [("raw_id", "ascending")]
    if "side" in raw_ids.column_names:
        keys.insert(0, ("side", "descending"))  # src, dst
    order: Positions = pc.sort_indices(raw_ids, sort_keys=keys).to_numpy().astype(np.int64)
    return order


def _nodes_of(view: EventView) -> NodeMask:
    nodes = np.zeros(view.log.num_nodes, dtype=np.bool_)
    for chunk in view.stream():
        nodes[chunk.columns.src] = True
        nodes[chunk.columns.dst] = True
    return nodes


def _require_shares(val_share: float, test_share: float, new_node_share: float) -> None:
    if not (val_share > 0 and test_share > 0 and val_share + test_share < 1):
        raise InputError(
            f"val_share {val_share} and test_share {test_share} must be above 0 and together below 1, "
            "so that training keeps a share; choose such shares, e.g. 0.15 and 0.15"
        )
    if not 0 <= new_node_share <= 1:
        raise InputError(f"new_node_share is {new_node_share}, but must be within 0…1; choose such a share")


def _require_events(log: EventLog, train: EventView, val: EventView, test: EventView) -> None:
    if len(train) and len(val) and len(test):
        return
    left_out = train.stop - len(train)
    raise InputError(
        f"{log.folder}: {len(log):,} events split into {len(train):,} for training ({left_out:,} more belong "
        f"to new nodes), {len(val):,} for validation and {len(test):,} for test, but each needs one; "
        "give a log with more distinct times or change val_share, test_share or new_node_share"
    )
