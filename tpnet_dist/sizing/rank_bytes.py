"""What a rank holds while it trains, part by part: for a run that is about to start, and for a planned one.

A run is held against `NeededBytes`, which it cannot do without; rows of others take of the rest. A plan has
the same parts, to the byte, and adds what comes on top of them (`RankBytes`).
"""

from dataclasses import dataclass, fields

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.models.registry import needs_of
from tpnet_dist.models.spec import weight_dtype
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.memory_sizes import (
    FLOAT_BYTES,
    borrowed_bytes_of,
    clock_bytes_of,
    memory_nodes,
    neighbor_bytes_of,
    row_bytes_of,
    slots_of,
    step_bytes_of,
)
from tpnet_dist.sizing.model_cost import training_cost, weight_count
from tpnet_dist.sizing.rank_memory import Place, RankMemory

_ON_HOST = {"neighbors", "features", "host_base"}
"""Parts that are not on the device; what the others are computed with is."""
_WITH_ROWS = {"rows", "borrowed", "clocks"}
_NO_BYTES = {"borrowed_rows", "rows_on"}
STATES_PER_WEIGHT = 4
"""Weight, gradient, two moments of Adam. Gradients travel where they lie."""
_SHARE_TO_BORROW = 8
"""The divisor of a rank's RAM that gives the default share of borrowed rows."""
_PLACES_OF_GRADIENTS = 2
"""Tensors beside the largest one: its gradient, and that before it."""
_PLACES_ON_THE_WAY = 2
"""The number of places that borrowed rows take on their way, beside where they end up: as they are lent, and
as they arrived."""
_HELD_BY_MALLOC = 1.35
"""The factor by which malloc holds more than is in use on cores: no two batches have buffers of the same
sizes, and malloc, which keeps them, is left with holes. Measured after a dozen steps at 1e5 to 1e7 edges on
one and two ranks: 1.28 to 1.48 times what is in use; after thousands of steps of UCI 1.9 times."""


@dataclass(frozen=True, kw_only=True)
class NeededBytes:
    """The bytes that one rank needs; no rows and no clocks where there is no memory."""

    rows: int
    borrowed: int
    """Copies of other ranks' rows that it keeps."""
    neighbors: int
    """Neighbour indexes of training events, and of all."""
    clocks: int
    """Times of its nodes' last events; those of borrowed rows are counted with the rows."""
    weights: int
    """Weights, with gradients and the optimizer's state."""
    step: int
    """The least bytes that a step works with."""
    borrowed_rows: int
    """The number of these copies, not their bytes."""

    def parts(self) -> list[tuple[str, int]]:
        return [
            (field.name, getattr(self, field.name)) for field in fields(self) if field.name not in _NO_BYTES
        ]


@dataclass(frozen=True, kw_only=True)
class RankBytes(NeededBytes):
    """The bytes of the largest rank, with all that comes on top."""

    activations: int
    """The bytes that a step is counted to take beyond its least."""
    in_flight: int
    """Rows fetched for the batches ahead, and on their way."""
    features: int
    """Features mapped from files and read as they are needed: the most of them that a host may come to
    hold."""
    base: int
    """The bytes that a process holds on its device before it has any data."""
    host_base: int
    """The bytes that a process holds on its host before it has any data; 0 where that is the device."""
    rows_on: Place = "device"

    def place_of(self, name: str) -> Place:
        """Return where a part lies if ranks have a GPU."""
        return self.rows_on if name in _WITH_ROWS else "host" if name in _ON_HOST else "device"

    def on(self, place: Place, device: Device) -> int:
        """Return the bytes in a place; on a host without GPUs everything is in one place."""
        if device.is_host:
            return self.total if place == "device" else 0
        return sum(value for name, value in self.parts() if self.place_of(name) == place)

    @property
    def total(self) -> int:
        return sum(value for _, value in self.parts())


def needed_bytes(
    config: Config, log: LogShape, num_ranks: int, memory: RankMemory, *, neighbors: int, rank: int = 0
) -> NeededBytes:
    """Return the bytes that a rank needs. `neighbors`: bytes of its neighbour index that are not there
    yet."""
    weights = weight_count(config, log) * weight_dtype(config).itemsize * STATES_PER_WEIGHT
    step, rows, clocks, borrowed_rows = step_bytes_of(config, log, num_ranks), 0, 0, 0
    if needs_of(config).rows:
        own = Blocks(memory_nodes(config, log), num_ranks).rows_per_rank
        rows, clocks = own * row_bytes_of(config, log), own * clock_bytes_of(config.memory)
        free = memory.free_per_rank - neighbors * memory.is_host
        borrowed_rows = rows_to_borrow(
            config.memory.borrowed_rows,
            borrowed_bytes_of(config, log),
            remote=remote_nodes(config, log, num_ranks, rank),
            free=free,
            left=free - rows - clocks - weights - step,
        )
    return NeededBytes(
        rows=rows,
        borrowed=borrowed_rows * borrowed_bytes_of(config, log),
        neighbors=neighbors,
        clocks=clocks,
        weights=weights,
        step=step,
        borrowed_rows=borrowed_rows,
    )


def rows_to_borrow(asked: int | None, row_bytes: int, *, remote: int, free: int, left: int) -> int:
    """Return how many of the `remote` rows may be borrowed; `left`: of what is free, beside all that a rank
    must have."""
    most = free // _SHARE_TO_BORROW // row_bytes if asked is None else asked
    # the other half is for what a step takes beyond its least
    fitting = left // 2 // row_bytes
    return max(0, min(most, fitting, remote))


def remote_nodes(config: Config, log: LogShape, num_ranks: int, rank: int) -> int:
    """Return the number of nodes whose rows are other ranks'."""
    nodes = memory_nodes(config, log)
    return nodes - len(range(*Blocks(nodes, num_ranks).range_of(rank)))


def exchanged_bytes(config: Config, log: LogShape, num_ranks: int, rank: int, events: int) -> int:
    """Return the bytes of rows that reach a rank for its so many events of a batch, at the most: if it holds
    none, and no two slots share one."""
    if not needs_of(config).rows:
        return 0
    most = min(slots_of(config, events), remote_nodes(config, log, num_ranks, rank))
    return most * borrowed_bytes_of(config, log)


def train_share_of(config: Config, log: LogShape) -> float:
    """Return the share of events that training sees; where nobody has split them, events of new nodes are
    among it."""
    return 1 - config.data.val_share - config.data.test_share if log.train_share is None else log.train_share


def rank_bytes(config: Config, log: LogShape, num_ranks: int, device: Device) -> RankBytes:
    num_train = round(len(log) * train_share_of(config, log))
    neighbors = neighbor_bytes_of(config, len(log), num_train, num_ranks)
    memory = device.rank_memory(num_ranks, config.memory.rows_on)
    needed = needed_bytes(config, log, num_ranks, memory, neighbors=neighbors)
    events = -(-config.training.batch_size // num_ranks)
    cost, held = training_cost(config, log, events), _HELD_BY_MALLOC if device.is_host else 1.0
    counted = int(held * (cost.saved_bytes + _PLACES_OF_GRADIENTS * cost.largest_bytes))
    return RankBytes(
        **vars(needed),
        activations=max(0, counted - needed.step),
        in_flight=int(held * _in_flight(config, log, num_ranks, events)),
        features=FLOAT_BYTES * (log.num_nodes * log.node_width + len(log) * log.edge_width),
        base=device.base_bytes,
        host_base=0 if device.is_host else device.host_base_bytes,
        rows_on=config.memory.rows_on,
    )


def _in_flight(config: Config, log: LogShape, num_ranks: int, events: int) -> int:
    """Return the bytes of the batch in work, of those ahead of it and on its way, if no two slots share a
    node."""
    if not needs_of(config).rows:
        return 0
    slots = min(slots_of(config, events), log.num_nodes)
    on_the_way = _PLACES_ON_THE_WAY if num_ranks > 1 else 0
    return (config.memory.prefetch + 1 + on_the_way) * slots * row_bytes_of(config, log)
