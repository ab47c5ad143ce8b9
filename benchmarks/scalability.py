"""The paper's scalability study: random graphs of average degree 100, from 1e5 to 1e8 edges.

    python -m benchmarks.scalability                          # 1e5, 1e6, 1e7, 1e8 edges on 1 and 2 ranks
    python -m benchmarks.scalability --edges 1e5 1e6 --ranks 1 --rivals

For each size the log is made, or found from before, and every event of it goes from the Parquet shards
through the sharded memory, on ranks of one thread that torchrun starts; then training and scoring steps are
timed at the log's end. In the same run two rivals record the same log: the published update, which decays
the whole table for every batch, and the walk matrices themselves, kept sparse as PINT does; each until it
has used up its time or memory, and not again at larger sizes.

What is measured is kept case by case in OUT/figures.jsonl: the same command goes on where it was interrupted.
OUT also gets table.md and the figures as PNG and SVG.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from benchmarks.measured_process import run_python
from benchmarks.results_line import commit_of_code, print_results_line
from benchmarks.scalability_figures import draw_figures
from benchmarks.scalability_table import print_table, summarise, write_markdown
from data_prep.synth import make_log
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.events.reader import EventLog
from tpnet_dist.flags import Count
from tpnet_dist.whole_file import whole_file

PROGRAM = "python -m benchmarks.scalability"
Rival = Literal["dense", "stored"]
Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which sizes, on how many ranks, against whom."""

    edges: tuple[Count, ...] = (100_000, 1_000_000, 10_000_000, 100_000_000)
    ranks: tuple[int, ...] = (1, 2)
    device: Literal["cpu", "cuda"] | None = None
    """By default GPUs if torch sees any."""
    steps: int = 10
    """Training steps timed at the end of each log, and as many of scoring."""
    rivals: tuple[Rival, ...] = ("dense", "stored")
    rival_seconds: float = 300.0
    """How long a rival may take for a log."""
    rival_memory_gib: float = 12.0
    """How much memory it may take."""
    out: Path = Path("build/scalability")
    logs: Path = Path("build/scalability/logs")
    """Where logs are made and found again; that of 1e8 edges takes about 1.5 GB."""

    def __post_init__(self) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda: torch sees no GPU here; leave it away, or say cpu")
        for name in ("edges", "ranks"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise InputError(f"{name} {getattr(self, name)}: must be positive numbers; ask for 1 or more")
        if self.steps < 1:
            raise InputError(f"steps {self.steps}: at least one is timed; ask for 1 or more")
        if min(self.edges) < 200 * 2 * (self.steps + 2):
            raise InputError(
                f"edges {min(self.edges):,}: {self.steps} steps of training and of scoring and their warm-up "
                f"take {200 * 2 * (self.steps + 2):,} events; ask for more edges or fewer --steps"
            )


@dataclass(frozen=True)
class Case:
    """One contestant on one log."""

    edges: int
    contestant: Literal["ours", "dense", "stored"]
    ranks: int

    def __str__(self) -> str:
        who = f"{self.ranks} rank{'s' * (self.ranks > 1)}" if self.contestant == "ours" else self.contestant
        return f"{self.edges:.0e} edges, {who}"


class Study:
    """Case after case; what is done is done once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.file = settings.out / "figures.jsonl"
        self.circumstances = {
            "commit": commit_of_code(),
            "device": settings.device or "default",
            "steps": settings.steps,
            "rival_seconds": settings.rival_seconds,
            "rival_memory_gib": settings.rival_memory_gib,
        }
        self.lines: list[Line] = []
        """All that were ever measured into this folder."""
        self.done: dict[Case, Line] = {}
        """Those of the same code and settings."""

    def run(self) -> list[Line]:
        self.settings.out.mkdir(parents=True, exist_ok=True)
        self.lines = list(self._kept_lines())
        same = [line for line in self.lines if line["circumstances"] == self.circumstances]
        self.done = {_case_of(line): line for line in same}
        cases = list(self._cases())
        for number, case in enumerate(cases, start=1):
            if case in self.done:
                continue
            left = self._seconds_left(cases[number - 1 :])
            _say(f"[{number} of {len(cases)}] {case}{left}")
            self._keep(case, {**asdict(case), **self._measure(case), "circumstances": self.circumstances})
        return [self.done[case] for case in cases]

    def _cases(self) -> Iterator[Case]:
        for edges in sorted(self.settings.edges):
            for ranks in self.settings.ranks:
                yield Case(edges, "ours", ranks)
            for rival in self.settings.rivals:
                yield Case(edges, rival, 1)

    def _kept_lines(self) -> Iterator[Line]:
        if self.file.exists():
            yield from map(json.loads, self.file.read_text().splitlines())

    def _keep(self, case: Case, line: Line) -> None:
        self.lines.append(line)
        self.done[case] = line
        with whole_file(self.file) as file:
            file.writelines(json.dumps(one).encode() + b"\n" for one in self.lines)

    def _measure(self, case: Case) -> Line:
        log = self._log(case.edges)
        if case.contestant == "ours":
            return self._measure_ours(case, log)
        smaller = [line for done, line in self.done.items() if done.contestant == case.contestant]
        failed = [line for line in smaller if line["outcome"] != "finished" and line["edges"] < case.edges]
        if failed:
            return {"outcome": failed[-1]["outcome"], "events": 0, "seconds": 0.0, "peak_bytes": 0}
        words = ["--rival", case.contestant, "--seconds", self.settings.rival_seconds]
        words += ["--memory-gib", self.settings.rival_memory_gib]
        reached: Line = json.loads(run_python("-m", "benchmarks.scalability_rivals", log, *words).output)
        return reached

    def _measure_ours(self, case: Case, log: Path) -> Line:
        file = self.settings.out / "case.json"
        words: list[object] = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={case.ranks}",
        ]
        words += ["-m", "benchmarks.scalability_rank", log, "--out", file, "--steps", self.settings.steps]
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self.settings.device == "cpu" else {}
        run_python(*words, environment={"OMP_NUM_THREADS": "1", **hidden})
        figures = summarise(EventLog(log), json.loads(file.read_text()))
        file.unlink()
        return figures

    def _log(self, edges: int) -> Path:
        folder = self.settings.logs / f"random-{edges}"
        if not (folder / "manifest.json").exists():
            _say(f"making a random log of {edges:.0e} edges in {folder}")
            make_log(folder, kind="random", events=edges, overwrite=True)
        return folder

    def _seconds_left(self, cases: list[Case]) -> str:
        """By what an event took so far; rivals are taken to use up their time."""
        ours = [line for case, line in self.done.items() if case.contestant == "ours"]
        if not ours:
            return ""
        per_event = max(sum(line["seconds"].values()) / line["edges"] for line in ours[-2:])
        has_failed = {
            case.contestant for case, line in self.done.items() if line.get("outcome", "").startswith("out")
        }
        left = sum(
            per_event * case.edges if case.contestant == "ours" else self.settings.rival_seconds
            for case in cases
            if case.contestant not in has_failed
        )
        return f"; about {max(1, round(left / 60))} min left in all"


def _case_of(line: Line) -> Case:
    return Case(line["edges"], line["contestant"], line["ranks"])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    with errors_for_people(PROGRAM, debug=False):
        settings = tyro.cli(Settings, description=__doc__)
        started = time.perf_counter()
        lines = Study(settings).run()
        print_table(lines)
        write_markdown(lines, settings.out / "table.md")
        draw_figures(lines, settings.out)
        _say(f"{settings.out}: table.md, figures.jsonl, scalability and cost_per_event as PNG and SVG")
        asked = {"edges": settings.edges, "ranks": settings.ranks, "cores": os.cpu_count()}
        print_results_line(
            "scalability", {**asked, "seconds": time.perf_counter() - started, "figures": lines}
        )


if __name__ == "__main__":
    main()
