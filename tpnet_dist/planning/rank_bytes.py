"""What a rank holds while it trains, part by part, on its device and on its host."""

from dataclasses import dataclass, fields
from typing import Literal

import torch

from tpnet_dist.config import Config
from tpnet_dist.memory.neighbors import BYTES_PER_ENTRY
from tpnet_dist.memory.row_cache import bytes_per_row
from tpnet_dist.planning.devices import Device
from tpnet_dist.planning.log_shape import LogShape
from tpnet_dist.planning.model_cost import training_cost, weight_count
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.training.memory_sizes import (
    CLOCK_BYTES,
    FLOAT_BYTES,
    STATES_PER_WEIGHT,
    memory_nodes,
    memory_width,
    slots_of,
)

Place = Literal["device", "host"]
PLACES: dict[str, Place] = {"neighbors": "host", "clocks": "host", "features": "host"}
"""Of parts that are not on the device; what the others are computed with is."""
_PLACES_OF_GRADIENTS = 2
"""Beside the largest tensor: its gradient, and that before it."""


@dataclass(frozen=True)
class RankBytes:
    """Of the largest rank."""

    rows: int
    neighbors: int
    """Of training events, and of all."""
    clocks: int
    """Every rank knows when each node had its last event."""
    features: int
    """Mapped from files, read as they are needed: the most of it that a host may come to hold."""
    weights: int
    """With gradients, the optimizer's state and a copy of the gradients under way."""
    activations: int
    in_flight: int
    """Rows fetched for the batches ahead."""
    base: int
    """What a process holds before it has any data."""

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
    train_share = train_share_of(config) if train_share is None else train_share
    events = -(-config.training.batch_size // num_ranks)
    cost, weights = training_cost(config, log, events), weight_count(config, log)
    entries = 2 * len(log) * (1 + train_share)
    has_memory = config.memory.enabled
    nodes, layers, width = memory_nodes(config, log), config.memory.hops + 1, memory_width(config.memory, log)
    return RankBytes(
        rows=Blocks(nodes, num_ranks).rows_per_rank * layers * width * FLOAT_BYTES if has_memory else 0,
        neighbors=int(BYTES_PER_ENTRY * entries / num_ranks),
        clocks=CLOCK_BYTES * nodes if has_memory else 0,
        features=FLOAT_BYTES * (log.num_nodes * log.node_width + len(log) * log.edge_width),
        weights=weights * FLOAT_BYTES * (STATES_PER_WEIGHT + (num_ranks > 1)),
        activations=int(cost.saved_bytes + _PLACES_OF_GRADIENTS * cost.largest_bytes),
        in_flight=_in_flight(config, log, num_ranks) if has_memory else 0,
        base=device.base_bytes,
    )


def _in_flight(config: Config, log: LogShape, num_ranks: int) -> int:
    """Of the batch in work and those ahead of it, if no two slots share a node."""
    slots = min(slots_of(config, num_ranks), log.num_nodes)
    kept = bytes_per_row(
        config.memory.hops + 1, memory_width(config.memory, log), torch.float32, torch.float32
    )
    return (config.memory.prefetch + 1) * slots * kept
