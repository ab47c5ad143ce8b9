"""What learns in a run: memory, model, optimizer and the step that joins them, for one seed."""

from dataclasses import dataclass

import torch

from tpnet_dist.config import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk
from tpnet_dist.model import TPNet
from tpnet_dist.ranks.account import ExchangeAccount
from tpnet_dist.ranks.exchange import Exchange
from tpnet_dist.ranks.world import World
from tpnet_dist.training.deepspeed_engine import DeepSpeedEngine
from tpnet_dist.training.deepspeed_settings import deepspeed_settings
from tpnet_dist.training.engine import DdpEngine, Engine
from tpnet_dist.training.link_queries import QueryMaker
from tpnet_dist.training.memory_sizes import (
    MemorySizes,
    free_for,
    memory_nodes,
    memory_width,
    padding_node_of,
    row_dtype,
    weight_bytes_of,
    wire_dtype,
)
from tpnet_dist.training.train_step import TrainStep


@dataclass(frozen=True)
class RunModel:
    """One seed's parts; weights depend on the seed alone, not on the ranks."""

    model: TPNet
    memory: Memory | None
    padding_node: int | None
    queries: QueryMaker
    step: TrainStep

    @classmethod
    def build(
        cls, config: Config, log: EventLog, world: World, seed: int, exchange: Exchange | None = None
    ) -> "RunModel":
        """`exchange`: one that nobody uses any more, whose account begins anew; None: a new one."""
        exchange = exchange or world.new_exchange()
        exchange.account = ExchangeAccount()
        torch.manual_seed(seed)
        model = build_model(config, log).to(world.device)
        sizes = MemorySizes.of(config, log, world, free=free_for(world), weights=weight_bytes_of(model))
        memory = build_memory(config, log, exchange, world.device, seed, sizes.borrowed_rows)
        queries = QueryMaker(world.device, log.node_features, row_dtype(config))
        engine = build_engine(config, model, world)
        step = TrainStep(model, engine, queries, seed)
        return cls(model, memory, padding_node_of(config, log), queries, step)

    @property
    def account(self) -> ExchangeAccount:
        """What rows on their way cost; nothing without a memory."""
        return self.memory.exchange.account if self.memory is not None else ExchangeAccount()


def build_engine(config: Config, model: TPNet, world: World) -> Engine:
    if config.training.engine == "deepspeed":
        # the first rank reads the file for all
        settings = world.on_first_rank(
            lambda: deepspeed_settings(config.training, world.num_ranks, world.device.type)
        )
        return DeepSpeedEngine(model, settings, world)
    return DdpEngine(model, learning_rate=config.training.learning_rate, num_ranks=world.num_ranks)


def build_model(config: Config, log: EventLog) -> TPNet:
    """Features that do not exist have no weights."""
    node, edge = log.manifest.node_features, log.manifest.edge_features
    return model_for(config, node_width=node.width if node else 0, edge_width=edge.width if edge else 0)


def model_for(config: Config, *, node_width: int, edge_width: int) -> TPNet:
    model = config.model
    made = TPNet(
        hops=config.memory.hops,
        neighbors=model.neighbors,
        node_width=node_width,
        edge_width=edge_width,
        time_width=model.time_width,
        channels=model.channels,
        mixer_layers=model.mixer_layers,
        dropout=model.dropout,
        profile=model.profile,
        use_memory=config.memory.enabled,
        scale=model.scale,
        bfloat16=config.training.precision == "bfloat16",
    )
    return made.to(row_dtype(config))


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
    """`further_nodes`: room for nodes that are not in the log, after all others."""
    settings = config.memory
    if not settings.enabled:
        return None
    return Memory(
        memory_nodes(config, log) + further_nodes,
        Walk(settings.walk, settings.hops, settings.decay),
        memory_width(settings, log),
        seed=seed,
        exchange=exchange,
        dtype=row_dtype(config),
        exchange_dtype=wire_dtype(config),
        borrowed_rows=borrowed_rows,
        run_batches=settings.run_batches,
        catch_up=settings.catch_up,
        device=device,
    )
