"""What scores links: the model of a seed, with the memory its rows come from."""

from dataclasses import dataclass

import torch
from torch import nn

from tpnet_dist.batches.link_batches import LinkBatchMaker
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory
from tpnet_dist.models.registry import needs_of
from tpnet_dist.models.spec import weight_dtype
from tpnet_dist.sizing.memory_sizes import memory_nodes, memory_width, walk_of, wire_dtype


@dataclass(frozen=True)
class ModelParts:
    """Holds the model and the memory of one seed."""

    model: nn.Module
    memory: Memory | None
    """The memory; None for models without rows."""
    padding_node: int | None
    batch_maker: LinkBatchMaker

    @property
    def stats(self) -> ExchangeStats:
        """Return what rows between ranks cost; nothing without a memory."""
        return self.memory.exchange.stats if self.memory is not None else ExchangeStats()


def rows_device(config: Config, device: torch.device) -> torch.device:
    """Return the device on which rows lie, of ranks that compute on `device`."""
    return torch.device("cpu") if config.memory.rows_on == "host" else device


def build_memory(
    config: Config,
    log: EventLog,
    exchange: Exchange,
    device: torch.device,
    seed: int,
    borrowed_rows: int,
    *,
    further_nodes: int = 0,
) -> Memory | None:
    """Build the memory; return None if the model needs no rows. `further_nodes`: room for nodes that are not
    in the log, after all others."""
    settings = config.memory
    if not needs_of(config).rows:
        return None
    return Memory(
        memory_nodes(config, log) + further_nodes,
        walk_of(settings),
        memory_width(settings, log),
        seed=seed,
        exchange=exchange,
        dtype=weight_dtype(config),
        exchange_dtype=wire_dtype(config),
        borrowed_rows=borrowed_rows,
        run_batches=settings.run_batches,
        catch_up=settings.catch_up,
        triton=config.training.triton,
        device=rows_device(config, device),
    )
