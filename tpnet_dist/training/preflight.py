"""What a run will take, before it takes it: `--check`, and the refusal of what does not fit."""

from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from tpnet_dist.batches.run_data import plan_of, split_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.portions import Portions
from tpnet_dist.distributed.world import World
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import Split
from tpnet_dist.files.readable import readable_bytes
from tpnet_dist.models.registry import spec_of
from tpnet_dist.neighbors.index import BYTES_PER_ENTRY
from tpnet_dist.sizing.memory_sizes import (
    STATES_PER_WEIGHT,
    MemorySizes,
    computes_on_host,
    free_for,
    memory_nodes,
    memory_width,
    step_bytes_of,
    weight_bytes_of,
)
from tpnet_dist.sizing.require_room import Part, require_room
from tpnet_dist.training.deepspeed_settings import deepspeed_settings
from tpnet_dist.training.weights_file import read_state, start_from


@dataclass(frozen=True)
class Forecast:
    """Of a run on so many ranks."""

    config: Config
    log: EventLog
    split: Split
    plan: BatchPlan
    portions: Portions
    width: int
    memory: MemorySizes
    """Per rank; like all that follow."""
    neighbor_bytes: int
    """On the host, like clocks."""
    weight_bytes: int
    step_bytes: int
    """At the least."""

    @classmethod
    def of(cls, config: Config, world: World) -> "Forecast":
        """Reads the log's times once or twice, nothing else; refuses what a run would refuse."""
        forecast = world.on_every_rank(lambda: cls._on_this_rank(config, world))
        world.on_every_rank(lambda: forecast.require_room(world))
        if config.training.engine == "deepspeed":
            world.on_first_rank(
                lambda: deepspeed_settings(config.training, world.num_ranks, world.device.type)
            )
        if config.model.weights:
            path = Path(config.model.weights)
            spec = spec_of(config)
            world.on_first_rank(
                lambda: start_from(spec.make(config, forecast.log.shape), spec, read_state(path), path)
            )
        return forecast

    @classmethod
    def require_room_to_evaluate(cls, config: Config, world: World) -> None:
        """A run of many ranks may be too large for those that evaluate it. They have neither gradients nor
        an optimizer; what they work with is not counted."""
        forecast = world.on_every_rank(lambda: cls._on_this_rank(config, world))
        rows = Part(forecast.rows_in_words, forecast.memory.rows)
        weights = Part("the model", forecast.weight_bytes // STATES_PER_WEIGHT)
        parts = [rows, weights, *forecast.parts_beside(world)]
        command = "torchrun --nproc_per_node=N -m tpnet_dist.evaluate"
        world.on_every_rank(lambda: require_room(forecast.width, parts, world, command=command))

    @classmethod
    def _on_this_rank(cls, config: Config, world: World) -> "Forecast":
        log = EventLog(config.data.folder)
        split = split_of(log, config.data)
        entries = 2 * (len(log) + len(split.train))
        neighbor_bytes = BYTES_PER_ENTRY * entries // world.num_ranks
        with torch.device("meta"):  # counted, not made: they may be too many
            weight_bytes = weight_bytes_of(spec_of(config).make(config, log.shape))
        return cls(
            config=config,
            log=log,
            split=split,
            plan=plan_of(split.train, config, config.training.batch_size),
            portions=world.portions(config.training.portions),
            width=memory_width(config.memory, log),
            memory=MemorySizes.of(
                config,
                log,
                world,
                free=free_for(world) - neighbor_bytes * computes_on_host(world),
                weights=weight_bytes,
            ),
            neighbor_bytes=neighbor_bytes,
            weight_bytes=weight_bytes,
            step_bytes=step_bytes_of(config, log, world.num_ranks),
        )

    def require_room(self, world: World) -> None:
        """To train."""
        events = f"{self.config.training.batch_size:,} events"
        causes = "training.batch_size, model.neighbors or memory.width"
        parts = [
            Part(self.rows_in_words, self.memory.rows, "memory.width or memory.hops"),
            Part("the model", self.weight_bytes, "model.channels"),
            Part(f"a step of {events} at least", self.step_bytes, causes),
            *self.parts_beside(world),
        ]
        require_room(self.width, parts, world)

    @property
    def rows_in_words(self) -> str:
        return f"rows of {memory_nodes(self.config, self.log):,} nodes take"

    def parts_beside(self, world: World) -> list[Part]:
        """What lies on the host, where that is where a rank computes."""
        on_host = [Part("neighbours", self.neighbor_bytes), Part("clocks", self.memory.clocks)]
        return on_host if computes_on_host(world) else []

    def show(self, console: Console) -> None:
        counts = f"{len(self.log):,} events, {self.log.num_nodes:,} nodes"
        console.print(f"{self.log.folder}: {counts}", soft_wrap=True, highlight=False)
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in self._lines():
            table.add_row(name, value)
        console.print(table)
        for remark in remarks_on(self.split, self.portions):
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
            ("ranks", str(self.portions.num_ranks)),
            ("rows, per rank", f"{readable_bytes(self.memory.rows)}, width {self.width}"),
            (
                "borrowed rows, per rank",
                f"at most {readable_bytes(self.memory.borrowed)}, {self.memory.borrowed_rows:,} rows",
            ),
            ("clocks, per rank", readable_bytes(self.memory.clocks)),
            ("rows exchanged, per rank and batch", f"at most {readable_bytes(self.memory.exchange)}"),
            ("neighbours, per rank", f"about {readable_bytes(self.neighbor_bytes)}"),
            ("weights and optimizer", readable_bytes(self.weight_bytes)),
            ("in work during a step, per rank", f"at least {readable_bytes(self.step_bytes)}"),
        ]


def remarks_on(split: Split, portions: Portions) -> list[str]:
    """What may surprise."""
    remarks = []
    if not split.inductive(split.test):
        remarks.append("No test event has a node unseen in training: there will be no inductive figures.")
    if not portions.are_even:
        remarks.append(
            f"The {portions.count} portions of a batch fall unevenly to {portions.num_ranks} ranks, "
            f"up to {portions.most_per_rank} to one, so that sums are made as on one rank; "
            "--training.portions 1 is faster, and rounds otherwise."
        )
    return remarks
