"""What a run will take, before it takes it: `--check`, and the refusal of what does not fit."""

from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from tpnet_dist.config import Config
from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import Split
from tpnet_dist.memory.neighbors import BYTES_PER_ENTRY
from tpnet_dist.ranks.host_memory import free_bytes
from tpnet_dist.ranks.world import World
from tpnet_dist.training.deepspeed_settings import deepspeed_settings
from tpnet_dist.training.run_data import plan_of, split_of
from tpnet_dist.training.run_model import build_model, memory_nodes, memory_width
from tpnet_dist.training.weights_file import read_state, start_from

_FLOAT_BYTES = 4
_CLOCK_BYTES = 16
"""Per node on every rank: clock and degree."""
_STATES_PER_WEIGHT = 4
"""Weight, gradient, two moments of Adam."""


@dataclass(frozen=True)
class Forecast:
    """Of a run on so many ranks."""

    config: Config
    log: EventLog
    split: Split
    plan: BatchPlan
    ranks: int
    width: int
    row_bytes: int
    """Of the memory's rows, per rank; like all that follow."""
    clock_bytes: int
    neighbor_bytes: int
    weight_bytes: int

    @classmethod
    def of(cls, config: Config, world: World) -> "Forecast":
        """Reads the log's times once or twice, nothing else; refuses what a run would refuse."""
        forecast = world.on_every_rank(lambda: cls._on_this_rank(config, world))
        if config.training.engine == "deepspeed":
            world.on_first_rank(lambda: deepspeed_settings(config.training, world.num_ranks))
        if config.model.weights:
            path = Path(config.model.weights)
            world.on_first_rank(lambda: start_from(build_model(config, forecast.log), read_state(path), path))
        return forecast

    @classmethod
    def _on_this_rank(cls, config: Config, world: World) -> "Forecast":
        log = EventLog(config.data.folder)
        split = split_of(log, config.data)
        nodes, width = memory_nodes(config, log), memory_width(config.memory, log)
        entries = 2 * (len(log) + len(split.train))
        with torch.device("meta"):  # counted, not made: they may be too many
            weights = sum(weight.numel() for weight in build_model(config, log).parameters())
        rows = -(-nodes // world.num_ranks) * (config.memory.hops + 1) * width * _FLOAT_BYTES
        forecast = cls(
            config=config,
            log=log,
            split=split,
            plan=plan_of(split.train, config, config.training.batch_size),
            ranks=world.num_ranks,
            width=width,
            row_bytes=rows if config.memory.enabled else 0,
            clock_bytes=_CLOCK_BYTES * nodes if config.memory.enabled else 0,
            neighbor_bytes=BYTES_PER_ENTRY * entries // world.num_ranks,
            weight_bytes=weights * _FLOAT_BYTES * _STATES_PER_WEIGHT,
        )
        forecast.require_room(free_bytes(world.device), world)
        return forecast

    def require_room(self, free: int, world: World) -> None:
        # ranks of a host share its memory; a GPU is a rank's own
        has_gpu = world.device.type == "cuda"
        sharers = 1 if has_gpu else world.ranks_per_node
        rows, weights = self.row_bytes * sharers, self.weight_bytes * sharers
        if rows + weights > free:
            raise InputError(
                f"memory.width {self.width}: rows of {memory_nodes(self.config, self.log):,} nodes take "
                f"{rows / 1e9:,.1f} GB and the model {weights / 1e9:,.1f} GB on this "
                f"{'GPU' if has_gpu else 'host'}, but {free / 1e9:,.1f} GB are free; "
                "lower memory.width, memory.hops or model.channels, or use more ranks"
            )

    def show(self, console: Console) -> None:
        counts = f"{len(self.log):,} events, {self.log.num_nodes:,} nodes"
        console.print(f"{self.log.folder}: {counts}", soft_wrap=True, highlight=False)
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in self._lines():
            table.add_row(name, value)
        console.print(table)
        for remark in self._remarks():
            console.print(remark, highlight=False)

    def _lines(self) -> list[tuple[str, str]]:
        split, training = self.split, self.config.training
        steps = self.plan.num_steps(training.batches_per_step)
        return [
            ("parts", f"{len(split.train):,} train, {len(split.val):,} validation, {len(split.test):,} test"),
            (
                "batching",
                f"{self.config.data.batching}: {len(self.plan):,} batches, {steps:,} steps an epoch",
            ),
            ("training", f"at most {training.epochs} epochs for each of {len(training.all_seeds())} seed(s)"),
            ("ranks", str(self.ranks)),
            ("rows, per rank", f"{self.row_bytes:,} bytes, width {self.width}"),
            ("clocks, per rank", f"{self.clock_bytes:,} bytes"),
            ("neighbours, per rank", f"about {self.neighbor_bytes:,} bytes"),
            ("weights and optimizer", f"{self.weight_bytes:,} bytes"),
        ]

    def _remarks(self) -> list[str]:
        remarks = []
        if not self.split.inductive(self.split.test):
            remarks.append("No test event has a node unseen in training: there will be no inductive figures.")
        return remarks
