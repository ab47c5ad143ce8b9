"""`--profile N`: a trace of some training steps on every rank, and a table of where their time went.

model      wait for rows, make batch, score, backward, all-reduce as far as backward does not hide it,
           optimizer; idle: what is left of a step, as looks at losses, checkpoints, the loop itself
exchange   plan, borrow, read, record: in the pipeline's thread, so they cost what the model waits, and cores;
           on a GPU all but planning is launched while the model waits
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.profiler as profiler
from rich.console import Console
from rich.table import Table
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity

from tpnet_dist.distributed.world import World
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.progress import Display
from tpnet_dist.spans import DeviceTimes, time_spans
from tpnet_dist.training.engine import Engine

WARM_UP_STEPS = 5
"""Steps that are not traced, since buffers and pipeline fill up."""
MODEL_PHASES = ("wait", "make batch", "score", "backward", "all-reduce", "optimizer")
EXCHANGE_PHASES = ("plan", "borrow", "read", "record")
DEVICE_PHASES = ("borrow", "read", "record")
"""The phases that work on the device."""
IDLE = "idle"
ON_DEVICE = "{} on the GPU"
"""The name of a phase of the exchange that events on the GPU have timed."""
PROFILE_NAME, PHASES_NAME = "profile", "phases.json"
"""The folder in a run's, and in it what the table says: for each rank seconds of a step by phase."""
EXPOSED = ("wait", "all-reduce")
"""Phases in which the model stands still."""

Seconds = dict[str, float]
"""Seconds of one rank, by phase."""


@dataclass
class ProfileRequest:
    """Holds what `--profile` asks for; a process traces once."""

    steps: int = 0
    folder: Path = Path(PROFILE_NAME)
    """The folder that traces are written to."""

    def begin(self, world: World, engine: Engine, display: Display) -> "StepProfile":
        steps, self.steps = self.steps, 0
        return StepProfile(steps, self.folder, world, engine, display)


class StepProfile:
    """Traces steps of an epoch after a warm-up, as many as it has; with no steps asked for, nothing."""

    def __init__(self, steps: int, folder: Path, world: World, engine: Engine, display: Display) -> None:
        # parts
        self._folder, self._world, self._engine, self._display = folder, world, engine, display
        self._profiler = self._start(steps) if steps else None
        # progress
        self._last = WARM_UP_STEPS + steps
        self._done = 0
        self._all_reduce = 0.0
        self._device_times: DeviceTimes | None = None

    def _start(self, steps: int) -> profiler.profile:
        started = profiler.profile(
            activities=_activities(self._world.device),
            schedule=profiler.schedule(wait=0, warmup=WARM_UP_STEPS, active=steps, repeat=1),
            on_trace_ready=self._keep,
            # the exchange runs in a thread of its own
            experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),
        )
        started.start()
        return started

    def end_step(self) -> None:
        if self._profiler is None:
            return
        exposed = self._engine.exposed_seconds()
        if self._done >= WARM_UP_STEPS:
            self._all_reduce += exposed
        self._done += 1
        if self._done == WARM_UP_STEPS and self._world.device.type == "cuda":
            self._device_times = DeviceTimes(DEVICE_PHASES)
            time_spans(self._device_times)
        self._profiler.step()
        if self._done == self._last:
            self.close()

    def close(self) -> None:
        """Print what was found; every rank must call it."""
        if self._profiler is None:
            return
        ending, self._profiler = self._profiler, None
        time_spans(None)
        ending.stop()
        if self._done <= WARM_UP_STEPS:
            self._display.say(f"--profile: the epoch has {self._done} steps, of which none is left to trace")

    def _keep(self, traced: profiler.profile) -> None:
        steps = self._done - WARM_UP_STEPS
        if not steps:  # the epoch ended with the warm-up
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"rank-{self._world.rank}.json.gz"
        traced.export_chrome_trace(str(path))
        mine = {phase: seconds / steps for phase, seconds in self._seconds(traced).items()}
        by_rank = self._world.gather_objects(mine)
        if self._world.rank == 0:
            with atomic_write(self._folder / PHASES_NAME) as file:
                file.write(json.dumps(by_rank).encode())
            show(by_rank, steps, Console())
            if self._world.device.type == "cuda":
                self._display.say("phases are the host's: what a GPU was only told to do is in the traces")
            self._display.say(
                f"{self._folder}: a trace of each rank, for ui.perfetto.dev or chrome://tracing"
            )

    def _seconds(self, traced: profiler.profile) -> Seconds:
        found = dict.fromkeys(("step", *MODEL_PHASES, *EXCHANGE_PHASES), 0.0)
        for event in traced.events() or ():  # type: ignore[no-untyped-call]
            name = "step" if event.name.startswith("ProfilerStep") else event.name
            if name in found and event.device_type == DeviceType.CPU:
                found[name] += event.cpu_time_total / 1e6
        if self._device_times is not None:
            by_name = self._device_times.seconds()
            found |= {ON_DEVICE.format(name): seconds for name, seconds in by_name.items()}
        found["all-reduce"] = min(self._all_reduce, found["backward"])
        found["backward"] -= found["all-reduce"]
        return with_idle(found)


def with_idle(found: Seconds) -> Seconds:
    """Add the time that no phase of the model covers; phases of the exchange run beside it."""
    return {**found, IDLE: max(0.0, found["step"] - sum(found[phase] for phase in MODEL_PHASES))}


def show(by_rank: list[Seconds], steps: int, console: Console) -> None:
    """Print milliseconds per step of every rank, and the share of the mean."""
    table = Table("", "phase", title=f"Milliseconds per step, {steps} steps")
    for rank in range(len(by_rank)):
        table.add_column(f"rank {rank}", justify="right")
    table.add_column("share", justify="right")
    mean_step = _mean(by_rank, "step")
    on_device = tuple(name for name in map(ON_DEVICE.format, DEVICE_PHASES) if name in by_rank[0])
    for side, phases in (("model", (*MODEL_PHASES, IDLE)), ("exchange", (*EXCHANGE_PHASES, *on_device))):
        for phase in phases:
            table.add_row(side, phase, *_cells(by_rank, phase, mean_step))
        table.add_section()
    table.add_row("", "whole step", *_cells(by_rank, "step", mean_step))
    console.print(table)
    console.print(f"the model stands still for other ranks or rows {exposed_share(by_rank):.1%} of a step")


def exposed_share(by_rank: list[Seconds]) -> float:
    return sum(_mean(by_rank, phase) for phase in EXPOSED) / max(_mean(by_rank, "step"), 1e-12)


def _cells(by_rank: list[Seconds], phase: str, mean_step: float) -> list[str]:
    share = _mean(by_rank, phase) / max(mean_step, 1e-12)
    return [*(f"{1e3 * seconds[phase]:,.1f}" for seconds in by_rank), f"{share:.1%}"]


def _mean(by_rank: list[Seconds], phase: str) -> float:
    return sum(seconds[phase] for seconds in by_rank) / len(by_rank)


def _activities(device: torch.device) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
