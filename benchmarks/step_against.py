"""Training steps of this code against those of an earlier commit, in turns.

    python -m benchmarks.step_against 8c6a862 --turns 6

Each side is a process of its own that trains by the trainer's own path (`benchmarks.contestants`) on the
same social log of UCI's size, as one rank with all cores, a few steps at a time: so both meet the same
disturbances of a shared machine. The earlier commit is checked out as a Git worktree in a folder for
temporary files, which is removed in the end.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from benchmarks.measuring import take_turns
from benchmarks.results_line import print_results_line

_ROOT = Path(__file__).parents[1]
_TRAIN = """
import sys, time
from pathlib import Path
from benchmarks.contestants import Trainer
from benchmarks.rank_pool import world_of_one
from data_prep.synth import make_log
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
import torch
torch.set_num_threads(int(sys.argv[2]))
make_log(Path(sys.argv[1]), kind="social", events=59_835, average_degree=2 * 59_835 / 1_899)
config = Config(data=DataConfig(folder=sys.argv[1]), memory=MemoryConfig(decay=1e-7))
with world_of_one() as world:
    trainer = Trainer(config, world)
    for line in sys.stdin:
        begun = time.perf_counter()
        trainer.learn(int(line))
        print("took", time.perf_counter() - begun, flush=True)
"""
"""What either side runs; it calls only what both commits have."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which commit, and for how long."""

    commit: Annotated[Positional[str], tyro.conf.arg(metavar="COMMIT")]
    """The earlier one."""
    steps: int = 5
    """Steps of each turn."""
    turns: int = 6
    """Counted turns; one more comes first."""
    cores: int = 2
    """Threads."""


class Side:
    """A process that trains when it is told to, by the code of one checkout."""

    def __init__(self, checkout: Path, log: Path, cores: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(cores)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TRAIN, str(log), str(cores)],
            cwd=checkout,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def learn(self, steps: int) -> float:
        """Return the seconds of a step."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("took "):
                return float(line.split()[1]) / steps
        raise RuntimeError(f"a side ended with exit code {self._process.wait()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="step-against-") as folder:
        checkout = Path(folder) / "code"
        git = ["git", "-C", str(_ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(checkout), commit], check=True, capture_output=True)
        try:
            yield checkout
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="step-against-")))
        checkouts = {"before": stack.enter_context(_checked_out(settings.commit)), "now": _ROOT}
        sides = {name: Side(path, folder / name, settings.cores) for name, path in checkouts.items()}
        for side in sides.values():
            stack.callback(side.close)
        acts = {name: partial(side.learn, settings.steps) for name, side in sides.items()}
        seconds = take_turns(acts, turns=settings.turns)
    ratios = [before / now for before, now in zip(seconds["before"], seconds["now"], strict=True)]
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    print(f"ms per step, median of {settings.turns} turns: before {1e3 * medians['before']:.1f}, ", end="")
    print(f"now {1e3 * medians['now']:.1f}; now is {statistics.median(ratios):.3f} times as fast")
    print_results_line("step_against", {"settings": asdict(settings), "seconds": seconds, "ratios": ratios})


if __name__ == "__main__":
    main()
