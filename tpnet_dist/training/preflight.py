"""Checks what a run takes before it takes it: `--check`, and the refusal of what does not fit."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tpnet_dist.batches.run_data import OpenedLog
from tpnet_dist.config.schema import Config, decay_text
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.world import World
from tpnet_dist.events.timescales import describe_rates, span_remark
from tpnet_dist.files.readable import readable_bytes
from tpnet_dist.models.registry import needs_of, spec_of
from tpnet_dist.sizing.memory_sizes import memory_nodes, memory_width, neighbor_bytes_of, step_bytes_of
from tpnet_dist.sizing.rank_bytes import STATES_PER_WEIGHT, NeededBytes, exchanged_bytes, needed_bytes
from tpnet_dist.sizing.rank_memory import Part, RankMemory
from tpnet_dist.sizing.sequence_length import longest_that_fits, sequence_length_of
from tpnet_dist.training.compilation import check_compile
from tpnet_dist.training.deepspeed_settings import deepspeed_settings
from tpnet_dist.training.weights_file import read_state, start_from


@dataclass(frozen=True)
class Preflight:
    """Checks the data and the memory of one rank. A run goes on with the log it has opened, and with the rows
    it finds may be borrowed."""

    config: Config
    opened: OpenedLog
    slices: BatchSlices
    memory: RankMemory
    row_memory: RankMemory
    """Where rows lie; the same, or the host's of a GPU."""
    needed: NeededBytes

    @classmethod
    def of(cls, config: Config, world: World, log_id: str | None = None) -> "Preflight":
        """Read the log, but none of its features; refuse what a run would refuse. `log_id`: the id of the
        version to read."""
        preflight = world.on_every_rank(lambda: cls._on_this_rank(config, world, log_id))
        world.on_every_rank(preflight.require_fits)
        world.on_every_rank(lambda: check_compile(config.training, world.device.type))
        if config.training.engine == "deepspeed":
            world.on_first_rank(
                lambda: deepspeed_settings(config.training, world.num_ranks, world.device.type)
            )
        if config.model.weights:
            path, spec, shape = Path(config.model.weights), spec_of(config), preflight.opened.log.shape
            world.on_first_rank(lambda: start_from(spec.make(config, shape), spec, read_state(path), path))
        return preflight

    @classmethod
    def to_evaluate(cls, config: Config, world: World, log_id: str | None = None) -> "Preflight":
        """Check a run that is evaluated: one of many ranks may be too large for those here. They have neither
        gradients nor an optimizer; what they work with is not counted."""
        preflight = world.on_every_rank(lambda: cls._on_this_rank(config, world, log_id))
        world.on_every_rank(preflight.require_fits_to_evaluate)
        return preflight

    @classmethod
    def _on_this_rank(cls, config: Config, world: World, log_id: str | None) -> "Preflight":
        opened, memory = OpenedLog.read(config, log_id), RankMemory.of(world)
        row_memory = RankMemory.of(world, config.memory.rows_on)
        log, ranks = opened.log, world.num_ranks
        neighbors = neighbor_bytes_of(config, len(log), len(opened.split.train), ranks)
        needed = needed_bytes(config, log.shape, ranks, row_memory, neighbors=neighbors, rank=world.rank)
        slices = world.batch_slices(config.training.microbatches)
        return cls(config, opened, slices, memory, row_memory, needed)

    @property
    def width(self) -> int:
        return memory_width(self.config.memory, self.opened.log)

    def require_fits(self) -> None:
        """Refuse to train what does not fit."""
        needed, events = self.needed, f"{self.config.training.batch_size:,} events"
        step = Part(f"a step of {events} at least", needed.step, self._causes_of_step())
        self._require_fits([Part("the model", needed.weights, "model.channels"), step])

    def require_fits_to_evaluate(self) -> None:
        model = Part("the model", self.needed.weights // STATES_PER_WEIGHT)
        self._require_fits([model], command="torchrun --nproc_per_node=N -m tpnet_dist.evaluate")

    def _require_fits(self, computed_with: list[Part], *, command: str = "") -> None:
        """Rows may lie on the host while a GPU computes."""
        setting, rows, beside = self._largest_setting(), self._rows(), self._parts_beside()
        if self.row_memory.is_host == self.memory.is_host:
            self.memory.require_fits([*rows, *computed_with, *beside], setting, command=command)
            return
        if rows or beside:
            self.row_memory.require_fits([*rows, *beside], setting, command=command)
        self.memory.require_fits(computed_with, setting, command=command)

    def _rows(self) -> list[Part]:
        if not needs_of(self.config).rows:
            return []
        text = f"rows of {memory_nodes(self.config, self.opened.log):,} nodes take"
        elsewhere = "" if self.row_memory.is_host else "set memory.rows_on to host"
        return [Part(text, self.needed.rows, "memory.width or memory.hops", elsewhere)]

    def _parts_beside(self) -> list[Part]:
        """Return what else lies where rows do."""
        neighbors = [Part("neighbours", self.needed.neighbors)] if self.row_memory.is_host else []
        clocks = [Part("clocks", self.needed.clocks)] if needs_of(self.config).rows else []
        return [*neighbors, *clocks]

    def _largest_setting(self) -> str:
        """Return what is named first where something does not fit."""
        if needs_of(self.config).rows:
            return f"memory.width {self.width}"
        sequence = sequence_length_of(self.config)
        return f"model.name {self.config.model.name}" if sequence is None else "{} {}".format(*sequence)

    def _causes_of_step(self) -> str:
        """Return settings that make a step smaller; of long sequences how short they must be."""
        if needs_of(self.config).rows:
            return "training.batch_size, model.neighbors or memory.width"
        sequence = sequence_length_of(self.config)
        if sequence is None:
            return "training.batch_size or model.neighbors"
        log, ranks = self.opened.log.shape, self.slices.num_ranks
        beside = sum(size for name, size in self.needed.parts() if name not in ("step", "borrowed"))
        if not self.memory.is_host:
            beside -= self.needed.neighbors
        longest = longest_that_fits(
            self.config,
            lambda config: step_bytes_of(config, log, ranks) + beside <= self.memory.free_per_rank,
        )
        return "training.batch_size" if longest is None else f"it to {longest}, lower training.batch_size"

    def show(self, console: Console) -> None:
        log = self.opened.log
        counts = f"{len(log):,} events, {log.num_nodes:,} nodes"
        console.print(f"{log.folder}: {counts}", soft_wrap=True, highlight=False)
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in self._lines():
            table.add_row(name, value)
        console.print(table)
        for remark in self.remarks():
            console.print(remark, highlight=False)

    @property
    def _fades(self) -> bool:
        """Whether there are rows that fade."""
        return needs_of(self.config).rows and self.config.memory.walk != "count"

    def decay_line(self) -> str:
        """Say what `memory.decay` means on this log; nothing where no row fades."""
        if not self._fades:
            return ""
        memory, span = self.config.memory, self.opened.log.manifest.span_seconds
        return f"{decay_text(memory.decay)} per second: {describe_rates(memory.rates, span)}"

    def remarks(self) -> list[str]:
        """Return sentences about what may surprise the user."""
        remarks, split, slices = [], self.opened.split, self.slices
        if self._fades and (
            remark := span_remark(self.config.memory.rates, self.opened.log.manifest.span_seconds)
        ):
            remarks.append(remark)
        if not split.inductive(split.test):
            remarks.append("No test event has a node unseen in training: there will be no inductive figures.")
        if not slices.are_even:
            remarks.append(
                f"The {slices.num_microbatches} microbatches of a batch fall unevenly to {slices.num_ranks} "
                f"ranks, up to {slices.most_microbatches} to one, so that sums are made as on one rank; "
                "--training.microbatches 1 is faster, and rounds otherwise."
            )
        return remarks

    def _lines(self) -> list[tuple[str, str]]:
        split, plan, training = self.opened.split, self.opened.train_plan, self.config.training
        needed, ranks, rank = self.needed, self.slices.num_ranks, self.slices.rank
        steps = plan.num_steps(training.batches_per_step)
        events = self.slices.largest_slice(training.batch_size)
        exchanged = exchanged_bytes(self.config, self.opened.log.shape, ranks, rank, events)
        return [
            ("parts", f"{len(split.train):,} train, {len(split.val):,} validation, {len(split.test):,} test"),
            (
                "batching",
                f"{self.config.data.batching}: {len(plan):,} batches, {steps:,} steps an epoch",
            ),
            ("training", f"at most {training.epochs} epochs for each of {len(training.all_seeds())} seed(s)"),
            *([("memory.decay", self.decay_line())] if self._fades else []),
            ("ranks", str(ranks)),
            ("rows, per rank", f"{readable_bytes(needed.rows)}, width {self.width}"),
            (
                "borrowed rows, per rank",
                f"at most {readable_bytes(needed.borrowed)}, {needed.borrowed_rows:,} rows",
            ),
            ("clocks, per rank", readable_bytes(needed.clocks)),
            ("rows exchanged, per rank and batch", f"at most {readable_bytes(exchanged)}"),
            ("neighbours, per rank", f"about {readable_bytes(needed.neighbors)}"),
            ("weights and optimizer", readable_bytes(needed.weights)),
            ("in work during a step, per rank", f"at least {readable_bytes(needed.step)}"),
        ]
