"""How large a rank's share of the memory is, and how many rows of other ranks it may keep beside it."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from tpnet_dist.config.schema import Config, MemoryConfig, default_width
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.host_memory import free_bytes
from tpnet_dist.distributed.world import World
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.walks import Walk
from tpnet_dist.models.registry import needs_of, spec_of
from tpnet_dist.models.spec import weight_dtype

FLOAT_BYTES = 4
_CLOCK_BYTES = 8
STATES_PER_WEIGHT = 4
"""Weight, gradient, two moments of Adam."""
_SHARE_TO_BORROW = 8
"""By default borrowed rows take one part in so many of a rank's RAM."""
_SLOT_BYTES = 32
"""Of a borrowed row, beside its layers and clock: whose it is, how much of it is right, where it is found."""


class LogSize(Protocol):
    """What sizes depend on: a log, or the idea of one."""

    @property
    def num_nodes(self) -> int: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class MemorySizes:
    """Of one rank, in bytes unless said otherwise; all 0 where there is no memory."""

    rows: int
    clocks: int
    """Of own rows; those of borrowed rows are counted with them."""
    borrowed_rows: int
    """How many copies of other ranks' rows it keeps."""
    borrowed: int
    exchange: int
    """Of rows that reach it for one batch, at the most: if none is held and no two slots share one."""

    @classmethod
    def of(cls, config: Config, log: EventLog, world: World, *, free: int, weights: int) -> "MemorySizes":
        """`free`: what this rank can still take where it computes, once its neighbours are there; `weights`:
        what the model will take of it."""
        settings = config.memory
        if not needs_of(config).rows:
            return cls(0, 0, 0, 0, 0)
        nodes = memory_nodes(config, log)
        own = Blocks(nodes, world.num_ranks).rows_per_rank
        rows, clocks = own * row_bytes_of(config, log), own * clock_bytes_of(settings)
        kept_bytes = borrowed_bytes_of(config, log)
        first, stop = Blocks(nodes, world.num_ranks).range_of(world.rank)
        remote = nodes - (stop - first)
        step = step_bytes_of(config, log, world.num_ranks)
        left = free - rows - clocks * computes_on_host(world) - weights - step
        borrowed = rows_to_keep(settings.borrowed_rows, kept_bytes, remote=remote, free=free, left=left)
        events = world.portions(config.training.portions).largest_slice(config.training.batch_size)
        exchange = min(slots_of(config, events), remote) * kept_bytes
        return cls(rows, clocks, borrowed, borrowed * kept_bytes, exchange)


def rows_to_keep(asked: int | None, row_bytes: int, *, remote: int, free: int, left: int) -> int:
    """Of the `remote` rows, as many as may be; `left`: of what is free, beside all that a rank must have."""
    most = free // _SHARE_TO_BORROW // row_bytes if asked is None else asked
    # the other half is for what a step takes beyond its least
    room = left // 2 // row_bytes
    return max(0, min(most, room, remote))


def slots_of(config: Config, events: int) -> int:
    """Nodes of so many training events: two ends, a negative, and the neighbours of each."""
    return events * 3 * (1 + needs_of(config).neighbors)


def step_bytes_of(config: Config, log: LogSize, num_ranks: int) -> int:
    """What a rank works with in a training step, at the least: the rows of neighbours, slot by slot and once
    more in the order of their products, and what the model keeps. Other layers come on top. Of ranks with
    uneven slices the mean, since those of a host share its memory."""
    events, spec = -(-config.training.batch_size // num_ranks), spec_of(config)
    needs = spec.needs(config)
    row = row_bytes_of(config, log) if needs.rows else 0
    rows = 2 * 3 * events * needs.neighbors * row
    number: int = getattr(torch, config.training.precision).itemsize
    return rows + events * spec.kept_numbers(config) * number


def computes_on_host(world: World) -> bool:
    """Then rows and weights lie beside neighbours and clocks, which are on the host in any case."""
    return world.device.type != "cuda"


def sharers_of(world: World) -> int:
    """How many ranks live on a rank's memory: those of a host share it; a GPU is a rank's own."""
    return world.ranks_per_node if computes_on_host(world) else 1


def free_for(world: World) -> int:
    """A rank's part of what is free."""
    return free_bytes(world.device) // sharers_of(world)


def weight_bytes_of(model: nn.Module) -> int:
    """With gradients and the optimizer's state."""
    return sum(weight.nbytes for weight in model.parameters()) * STATES_PER_WEIGHT


def row_bytes_of(config: Config, log: LogSize) -> int:
    """Of one node's row."""
    return (config.memory.hops + 1) * memory_width(config.memory, log) * weight_dtype(config).itemsize


def wire_dtype(config: Config) -> torch.dtype:
    """Of rows on their way: as they are, unless they are to be rounded."""
    wanted: torch.dtype = getattr(torch, config.memory.exchange_dtype)
    return weight_dtype(config) if wanted == torch.float32 else wanted


def borrowed_bytes_of(config: Config, log: LogSize) -> int:
    """Of a copy of another rank's row."""
    return row_bytes_of(config, log) + clock_bytes_of(config.memory) + _SLOT_BYTES


def clock_bytes_of(settings: MemoryConfig) -> int:
    """Of one row: its clock, and its degree where the walk divides by it."""
    keeps_degree = Walk(settings.walk, settings.hops, settings.decay).keeps_degree
    return _CLOCK_BYTES * (1 + keeps_degree)


def memory_width(settings: MemoryConfig, log: LogSize) -> int:
    return settings.width or default_width(len(log), log.num_nodes)


def memory_nodes(config: Config, log: LogSize) -> int:
    return log.num_nodes + (padding_node_of(config, log) is not None)


def padding_node_of(config: Config, log: LogSize) -> int | None:
    """The released code has a node of its own for empty neighbour slots; here it comes after all others."""
    return log.num_nodes if needs_of(config).padding_node else None
