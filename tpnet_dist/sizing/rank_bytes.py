"""What a rank holds while it trains, part by part, on its device and on its host."""

from dataclasses import dataclass, fields
from typing import Literal

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.models.registry import needs_of
from tpnet_dist.neighbors.index import BYTES_PER_ENTRY
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.memory_sizes import (
    FLOAT_BYTES,
    STATES_PER_WEIGHT,
    borrowed_bytes_of,
    clock_bytes_of,
    memory_nodes,
    row_bytes_of,
    rows_to_keep,
    slots_of,
    step_bytes_of,
)
from tpnet_dist.sizing.model_cost import training_cost, weight_count

Place = Literal["device", "host"]
PLACES: dict[str, Place] = {"neighbors": "host", "clocks": "host", "features": "host", "host_base": "host"}
"""Of parts that are not on the device; what the others are computed with is."""
_PLACES_OF_GRADIENTS = 2
"""Beside the largest tensor: its gradient, and that before it."""
_PLACES_ON_THE_WAY = 2
"""Where borrowed rows lie on their way, beside where they end up: as they are lent, and as they arrived."""
_HELD_BY_MALLOC = 1.35
"""On cores: no two batches have buffers of the same sizes, and malloc, which keeps them, is left with holes.
Measured after a dozen steps at 1e5 to 1e7 edges on one and two ranks: 1.28 to 1.48 times what is in use;
after thousands of steps of UCI 1.9 times."""


@dataclass(frozen=True)
class RankBytes:
    """Of the largest rank."""

    rows: int
    borrowed: int
    """Copies of other ranks' rows that it keeps."""
    neighbors: int
    """Of training events, and of all."""
    clocks: int
    """When each of its nodes had its last event."""
    features: int
    """Mapped from files, read as they are needed: the most of it that a host may come to hold."""
    weights: int
    """With gradients, the optimizer's state and a copy of the gradients under way."""
    activations: int
    in_flight: int
    """Rows fetched for the batches ahead, and on their way."""
    base: int
    """What a process holds before it has any data, on its device."""
    host_base: int
    """The same on its host; 0 where that is the device."""

    def on(self, place: Place, device: Device) -> int:
        """On a host without GPUs everything is in one place."""
        if device.is_host:
            return self.total if place == "device" else 0
        return sum(value for name, value in self.parts() if PLACES.get(name, "device") == place)

    @property
    def total(self) -> int:
        return sum(value for _, value in self.parts())

    def parts(self) -> list[tuple[str, int]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


def train_share_of(config: Config) -> float:
    """Of the events, what training may see; of it, events of nodes that are to be new are left out."""
    return 1 - config.data.val_share - config.data.test_share


def rank_bytes(
    config: Config, log: LogShape, num_ranks: int, device: Device, *, train_share: float | None = None
) -> RankBytes:
    """`train_share`: of the events that training sees, which have a neighbour index of their own."""
    events = -(-config.training.batch_size // num_ranks)
    cost, nodes = training_cost(config, log, events), memory_nodes(config, log)
    has_memory = needs_of(config).rows
    own = Blocks(nodes, num_ranks).rows_per_rank if has_memory else 0
    held = _HELD_BY_MALLOC if device.is_host else 1.0
    return RankBytes(
        rows=own * row_bytes_of(config, log),
        borrowed=borrowed_rows_of(config, log, num_ranks, device, train_share=train_share)
        * borrowed_bytes_of(config, log),
        neighbors=_neighbor_bytes(config, log, num_ranks, train_share),
        clocks=clock_bytes_of(config.memory) * own,
        features=FLOAT_BYTES * (log.num_nodes * log.node_width + len(log) * log.edge_width),
        weights=weight_count(config, log) * FLOAT_BYTES * (STATES_PER_WEIGHT + (num_ranks > 1)),
        activations=int(held * (cost.saved_bytes + _PLACES_OF_GRADIENTS * cost.largest_bytes)),
        in_flight=int(held * _in_flight(config, log, num_ranks, events)) if has_memory else 0,
        base=device.base_bytes,
        host_base=0 if device.is_host else device.host_base_bytes,
    )


def borrowed_rows_of(
    config: Config, log: LogShape, num_ranks: int, device: Device, *, train_share: float | None = None
) -> int:
    """How many rows of others the first rank keeps, by the rule of a run; where nobody else is at work."""
    if not needs_of(config).rows:
        return 0
    nodes = memory_nodes(config, log)
    own = Blocks(nodes, num_ranks).rows_per_rank
    free, clocks = device.memory_bytes - device.base_bytes, 0
    if device.is_host:
        sharers = min(num_ranks, device.ranks_per_host)
        free = device.host_memory_bytes // sharers - device.base_bytes
        # which are there before a run looks for room
        free -= _neighbor_bytes(config, log, num_ranks, train_share)
        clocks = clock_bytes_of(config.memory) * own
    weights = weight_count(config, log) * FLOAT_BYTES * STATES_PER_WEIGHT
    rows, step = own * row_bytes_of(config, log), step_bytes_of(config, log, num_ranks)
    return rows_to_keep(
        config.memory.borrowed_rows,
        borrowed_bytes_of(config, log),
        remote=nodes - own,
        free=max(0, free),
        left=free - rows - clocks - weights - step,
    )


def _neighbor_bytes(config: Config, log: LogShape, num_ranks: int, train_share: float | None) -> int:
    train_share = train_share_of(config) if train_share is None else train_share
    return int(BYTES_PER_ENTRY * 2 * len(log) * (1 + train_share) / num_ranks)


def _in_flight(config: Config, log: LogShape, num_ranks: int, events: int) -> int:
    """Of the batch in work, those ahead of it, and that on its way, if no two slots share a node."""
    slots = min(slots_of(config, events), log.num_nodes)
    on_the_way = _PLACES_ON_THE_WAY if num_ranks > 1 else 0
    return (config.memory.prefetch + 1 + on_the_way) * slots * row_bytes_of(config, log)
