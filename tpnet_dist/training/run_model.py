"""The parts that learn in a run: those that score, and the step that trains the model, for one seed."""

import gc
from dataclasses import dataclass

import torch
from torch import nn

from tpnet_dist.batches.link_batches import LinkBatchMaker
from tpnet_dist.batches.run_data import new_row_exchange
from tpnet_dist.config.schema import Config
from tpnet_dist.device_forms import let_products_use_tf32, repeat_bits
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.distributed.launch_environment import reserve_work_space_of_products
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.model_parts import ModelParts, build_memory
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.models.spec import preparation
from tpnet_dist.sizing.memory_sizes import padding_node_of
from tpnet_dist.sizing.rank_bytes import needed_bytes
from tpnet_dist.sizing.rank_memory import RankMemory
from tpnet_dist.training.compilation import check_compile, compiled
from tpnet_dist.training.deepspeed_engine import DeepSpeedEngine
from tpnet_dist.training.deepspeed_settings import deepspeed_settings
from tpnet_dist.training.engine import DdpEngine, Engine
from tpnet_dist.training.train_step import TrainStep


@dataclass(frozen=True)
class RunModel(ModelParts):
    """Holds one seed's parts; weights depend on the seed alone, not on the ranks."""

    step: TrainStep

    @classmethod
    def build(
        cls,
        config: Config,
        log: EventLog,
        world: World,
        seed: int,
        exchange: Exchange | None = None,
        *,
        borrowed_rows: int | None = None,
    ) -> "RunModel":
        """Build the parts of a seed. `exchange`: one that nobody uses any more, whose stats begin anew; None:
        a new one. `borrowed_rows`: of other ranks, to be kept; None: as many as fit now, where neighbours are
        there."""
        # torch keeps frames of data parallelism's first start in a cycle, and with them the first seed's
        # memory, whose rows are not to lie beside this one's
        gc.collect()
        if borrowed_rows is None:
            free = RankMemory.of(world, config.memory.rows_on)
            borrowed_rows = needed_bytes(
                config, log.shape, world.num_ranks, free, neighbors=0, rank=world.rank
            ).borrowed_rows
        exchange = exchange or new_row_exchange(config, world)
        exchange.stats = ExchangeStats()
        if world.device.type == "cuda":
            let_products_use_tf32(config.training.precision == "tf32")
            if config.training.deterministic:
                reserve_work_space_of_products()
            repeat_bits(config.training.deterministic)
        torch.manual_seed(seed)
        model = spec_of(config).make(config, log.shape).to(world.device)
        memory = build_memory(config, log, exchange, world.device, seed, borrowed_rows)
        batch_maker = LinkBatchMaker(world.device, preparation(config, spec_of(config)))
        engine = build_engine(config, model, world)
        step = TrainStep(model, engine, batch_maker)
        return cls(model, memory, padding_node_of(config, log), batch_maker, step)


def build_engine(config: Config, model: nn.Module, world: World) -> Engine:
    check_compile(config.training, world.device.type)
    as_code = compiled(model, config.training)
    if config.training.engine == "deepspeed":
        # the first rank reads the file for all
        settings = world.on_first_rank(
            lambda: deepspeed_settings(config.training, world.num_ranks, world.device.type)
        )
        return DeepSpeedEngine(model, settings, world, compiled=as_code)
    learning_rate = config.training.learning_rate
    return DdpEngine(model, learning_rate=learning_rate, num_ranks=world.num_ranks, compiled=as_code)
