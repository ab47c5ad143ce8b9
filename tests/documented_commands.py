"""The commands that the README and docs/ show, and how tests run each of them: small, on CPU ranks."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.command_line import ROOT

_BLOCK = re.compile(r"^```bash\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)

SET_UP = ("make ", "source ", "pip install ", "playwright install ")
"""Beginnings of commands that whoever runs tests has run, or `make demo` itself."""
_LAUNCHED = "tests/end_to_end/test_launch_files.py"
RUN_ELSEWHERE = {
    "launch/several_nodes.sh": (_LAUNCHED, "several_nodes.sh"),
    "launch/deepspeed.sh": (_LAUNCHED, "deepspeed.sh"),
    "sbatch": (_LAUNCHED, "slurm.sbatch"),
    "python -m benchmarks.scalability": ("tests/end_to_end/test_scalability.py", "scalability"),
    "python -m benchmarks.planner": ("tests/end_to_end/test_scalability.py", "benchmarks.planner"),
    "python -m benchmarks.accuracy --data data --seeds": ("tests/unit/benchmarks/test_study.py", "accuracy"),
    "python -m benchmarks.accuracy --data data/uci": ("tests/unit/benchmarks/test_study.py", "accuracy"),
}
"""Beginnings of commands that take another machine or too long; which test runs the like, by what word."""

_SMALL_MODEL = {
    "--memory.width": "16",
    "--model.neighbors": "4",
    "--model.time-width": "8",
    "--model.channels": "16",
    "--model.mixer-layers": "1",
    "--training.batch-size": "50",
    "--training.epochs": "1",
    "--training.max-steps": "4",
}
_SMALLER: dict[str, dict[str, str]] = {
    "-m tpnet_dist.train": _SMALL_MODEL,
    "launch/one_node.sh": _SMALL_MODEL,
    "-m tpnet_dist.evaluate": {"--mrr-negatives": "5"},
    "-m data_prep convert": {"--overwrite": ""},
    "-m data_prep synth": {"--overwrite": "", "--events": "1e3"},
    "-m benchmarks.accuracy": {"--epochs": "1", "--config": "small.toml"},
    "-m benchmarks.neighbors": {"--events": "1e4", "--nodes": "1e3"},
    "-m benchmarks.exchange": {
        "--events": "400",
        "--warm-up": "400",
        "--random-nodes": "0",
        "--ranks": "2",
    },
}
"""What each command's words are made to be, so that it takes seconds."""
SMALL_SETTINGS = (
    "[model]\nneighbors = 4\ntime_width = 8\nchannels = 16\nmixer_layers = 1\n[memory]\nwidth = 16\n"
)


@dataclass(frozen=True)
class Documented:
    """A command as a page shows it, without its comment."""

    page: str
    command: str

    def is_set_up(self) -> bool:
        return self.command.startswith(SET_UP)

    def elsewhere(self) -> tuple[str, str] | None:
        """The test that runs it, and a word of it there, if the pages' test does not."""
        return next((test for start, test in RUN_ELSEWHERE.items() if self.command.startswith(start)), None)

    def small(self) -> str:
        """The command with its sizes made small, for a machine without GPUs."""
        trains_nothing = "--runs" in self.command or "--check" in self.command
        parts = {} if trains_nothing else _SMALLER
        changes = next((new for part, new in parts.items() if part in self.command), {})
        first, *rest = self.command.replace("one_node.sh gpu ", "one_node.sh 2 ").split(" | ")
        for flag, value in changes.items():
            first = _with(first, flag, value)
        return " | ".join([first, *rest])


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands_of(page: Path) -> list[Documented]:
    """In order; lines that a backslash continues are one."""
    text = "".join(_BLOCK.findall(page.read_text())).replace("\\\n", " ")
    commands = [re.sub(r"\s+# .*", "", line).strip() for line in text.splitlines()]
    name = str(page.relative_to(ROOT))
    return [Documented(name, re.sub(r" +", " ", command)) for command in commands if command]


def _with(command: str, flag: str, value: str) -> str:
    """The flag given that value, in the place where it is, or at the end."""
    words = shlex.split(command)
    if flag not in words:
        return f"{command} {flag} {value}".rstrip()
    place = words.index(flag)
    after = place + 1
    while after < len(words) and not words[after].startswith("--"):
        after += 1
    return shlex.join([*words[: place + 1], *value.split(), *words[after:]])
