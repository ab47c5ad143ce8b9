"""The part of `propagation` that lets recorders take turns: today's against an earlier edition's, and today's
on a quiet machine against itself beside a process that spins.

Both sides live in processes of their own and record for a moment at a time, so they meet the same
disturbances of a shared machine. An earlier commit is checked out as a Git worktree in a folder for temporary
files, which is removed in the end.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import take_turns
from tpnet_dist.errors import InputError

_ROOT = Path(__file__).parents[1]
_FIRST_EDITION = _ROOT / "benchmarks" / "first_edition.py"


@dataclass(frozen=True)
class Size:
    """A memory, and what it is fed with."""

    edges: int
    nodes: int
    width: int
    batch_size: int

    def args(self) -> list[str]:
        return [str(number) for number in (self.nodes, self.width, self.batch_size)]


@dataclass(frozen=True)
class Comparison:
    """Medians over turns."""

    edges: int
    nodes: int
    width: int
    batch_size: int
    events_per_second: float
    """Events per second of today's edition on a quiet machine."""
    others_per_second: float
    """Events per second of the earlier edition, or of today's beside a spinning process."""
    ratio: float
    """The first over the second, median over turns."""
    cpu_ratio: float
    """The ratio of events per second of processor time: what is left of it where others use the cores too."""


@dataclass(frozen=True)
class Rate:
    """Events per second, and per second of processor time."""

    wall: float
    cpu: float


class Recorder:
    """A process that records when it is told to, one thread."""

    def __init__(self, *args: str, python_path: Path | None = None) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if python_path is not None:
            environment["PYTHONPATH"] = str(python_path)
        self._process = subprocess.Popen(
            [sys.executable, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=_ROOT,
        )

    def record(self, seconds: float) -> Rate:
        """Record for so long."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(seconds, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise InputError(
                f"a recorder ended with exit code {self._process.wait()}; see above what it said"
            )
        took = json.loads(line)
        return Rate(took["events"] / took["seconds"], took["events"] / took["cpu_seconds"])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Spinner:
    """A process that keeps one core busy while it is let."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self._process.send_signal(signal.SIGSTOP)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._process.send_signal(signal.SIGCONT)
        yield
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def measure_against(commit: str, sizes: list[Size], *, seconds: float, turns: int) -> list[Comparison]:
    with worktree_of(commit) as folder:
        return [_compare_editions(folder, size, seconds, turns) for size in sizes]


def _compare_editions(folder: Path, size: Size, seconds: float, turns: int) -> Comparison:
    with ExitStack() as stack:
        ours = Recorder("-m", "benchmarks.recorder", *size.args())
        stack.callback(ours.close)
        # -P: nothing of today's tree is found before the worktree
        theirs = Recorder("-P", str(_FIRST_EDITION), *size.args(), python_path=folder)
        stack.callback(theirs.close)
        return _alternate(
            size,
            lambda: ours.record(seconds),
            lambda: theirs.record(seconds),
            turns,
        )


def measure_beside_spinner(sizes: list[Size], *, seconds: float, turns: int) -> list[Comparison]:
    return [_compare_beside_spinner(size, seconds, turns) for size in sizes]


def _compare_beside_spinner(size: Size, seconds: float, turns: int) -> Comparison:
    with ExitStack() as stack:
        recorder, spinner = Recorder("-m", "benchmarks.recorder", *size.args()), Spinner()
        stack.callback(recorder.close)
        stack.callback(spinner.close)

        def disturbed() -> Rate:
            with spinner.at_work():
                return recorder.record(seconds)

        return _alternate(size, lambda: recorder.record(seconds), disturbed, turns)


def _alternate(size: Size, ours: Callable[[], Rate], other: Callable[[], Rate], turns: int) -> Comparison:
    taken = take_turns({"ours": ours, "other": other}, turns=turns)
    pairs = list(zip(taken["ours"], taken["other"], strict=True))
    return Comparison(
        **vars(size),
        events_per_second=statistics.median(one.wall for one, _ in pairs),
        others_per_second=statistics.median(one.wall for _, one in pairs),
        ratio=statistics.median(one.wall / other.wall for one, other in pairs),
        cpu_ratio=statistics.median(one.cpu / other.cpu for one, other in pairs),
    )


@contextmanager
def worktree_of(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="edition-") as name:
        folder = Path(name) / "tree"
        added = _git("worktree", "add", "--detach", str(folder), commit)
        if added.returncode:
            raise InputError(f"--against {commit}: {added.stderr.strip()}; name a commit of this repository")
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *args], cwd=_ROOT, capture_output=True, text=True, check=False)


def print_comparisons(title: str, other: str, figures: list[Comparison]) -> None:
    table = Table(title=title)
    for heading in ("edges", "nodes", "D", "batch", "events/s", f"{other}, events/s", "ratio", "of CPU time"):
        table.add_column(heading, justify="right")
    for one in figures:
        table.add_row(
            f"{one.edges:.0e}",
            f"{one.nodes:,}",
            str(one.width),
            f"{one.batch_size:,}",
            f"{one.events_per_second:,.0f}",
            f"{one.others_per_second:,.0f}",
            f"{one.ratio:.2f}",
            f"{one.cpu_ratio:.2f}",
        )
    Console(width=120).print(table)
