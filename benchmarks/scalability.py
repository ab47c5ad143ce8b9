"""The paper's scalability study: random graphs of average degree 100, from 1e5 to 1e8 edges.

    python -m benchmarks.scalability                          # 1e5, 1e6, 1e7, 1e8 edges on 1 and 2 ranks
    python -m benchmarks.scalability --edges 1e5 1e6 --ranks 1 --rivals

For each size the log is made, or found from before, and every event of it goes from the Parquet shards
through the sharded memory, on ranks of one thread that torchrun starts; then training and scoring steps are
timed at the log's end. In the same run three rivals record the same log: the published update, which makes a
decayed copy of the whole table for every batch, as released (dense) and in a process that keeps freed
buffers as ours do (dense-kept), and the walk matrices themselves, kept sparse as PINT does (stored); each
until it has used up its time or memory. Who ran out of memory is not tried again at larger sizes; who ran out
of time is, up to those of --rivals-up-to.

What is measured is kept case by case in OUT/figures.jsonl: the same command goes on where it was interrupted,
as long as the code that a case runs is the same. OUT also gets table.md and the figures as PNG and SVG.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from benchmarks.measured_process import run_python
from benchmarks.results_line import commit_of_code, cpu_name, hash_of_code, print_results_line
from benchmarks.scalability_figures import draw_figures
from benchmarks.scalability_rivals import Rival
from benchmarks.scalability_summary import summarise
from benchmarks.scalability_table import DENSE, print_table, times_faster, write_markdown
from benchmarks.study_time import our_seconds, rival_seconds
from data_prep.synth import make_log
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.events.reader import EventLog
from tpnet_dist.files.atomic_write import atomic_write

PROGRAM = "python -m benchmarks.scalability"
Line = dict[str, Any]
_PARTS = ("batches", "config", "distributed", "events", "files", "memory", "models", "neighbors", "training")
_SHARED = (
    *(f"tpnet_dist/{part}" for part in _PARTS),
    "tpnet_dist/keyed_random.py",
    "benchmarks/measuring.py",
)
_RIVALS = (*_SHARED, "benchmarks/scalability_rivals.py")
_DENSE = (*_RIVALS, "benchmarks/published_update.py", "reference/literal.py")
CODE = {
    "ours": (*_SHARED, "benchmarks/scalability_rank.py", "benchmarks/scalability_summary.py"),
    "dense": _DENSE,
    "dense-kept": _DENSE,
    "stored": (*_RIVALS, "benchmarks/stored_walks.py"),
}
"""The files that a case of each contestant runs. Once one is changed, the case is measured anew; nothing else
has that effect."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes, the numbers of ranks, and the rivals."""

    edges: tuple[Count, ...] = (100_000, 1_000_000, 10_000_000, 100_000_000)
    ranks: tuple[int, ...] = (1, 2)
    device: Literal["cpu", "cuda"] | None = None
    """The device; by default GPUs if torch sees any."""
    steps: int = 10
    """Training steps timed at the end of each log, and as many of scoring."""
    rivals: tuple[Rival, ...] = ("dense", "dense-kept", "stored")
    rival_seconds: float = 300.0
    """The seconds that a rival may take for a log."""
    stored_seconds: float | None = None
    """The seconds that `stored` may take, where that is not `rival_seconds`."""
    rival_memory_gib: float = 12.0
    """The memory that a rival may take."""
    rivals_up_to: Count = 10_000_000
    """Edges of the largest log on which a rival is tried that ran out of time on a smaller one."""
    out: Path = Path("build/scalability")
    logs: Path = Path("build/scalability/logs")
    """The folder in which logs are made and found again; that of 1e8 edges takes about 0.7 GB."""

    def check(self) -> None:
        """Refuse settings that make no sense. This is not done at construction, since tyro would put the
        error in a box of its own."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda: torch sees no GPU here; leave it away, or say cpu")
        for name, values in (("edges", self.edges), ("ranks", self.ranks), ("steps", (self.steps,))):
            if not values or min(values) < 1:
                worst = min(values) if values else "empty"
                raise InputError(f"--{name} is {worst}, but must be at least 1; raise it")
        for flag in ("rival_seconds", "stored_seconds", "rival_memory_gib"):
            value = getattr(self, flag)
            if value is not None and not value >= 0:  # NaN is not, either
                name = flag.replace("_", "-")
                raise InputError(f"--{name} is {value}, but must be 0 or more; raise it")
        taken = 200 * 2 * (self.steps + 2)
        if min(self.edges) <= taken:
            raise InputError(
                f"--edges is {min(self.edges)}, but must be above the {taken} events that {self.steps} steps "
                "of training and of scoring and their warm-up take; raise it, or lower --steps"
            )


@dataclass(frozen=True)
class Case:
    """One contestant on one log."""

    edges: int
    contestant: Literal["ours"] | Rival
    ranks: int

    def __str__(self) -> str:
        who = f"{self.ranks} rank{'s' * (self.ranks > 1)}" if self.contestant == "ours" else self.contestant
        return f"{self.edges:.0e} edges, {who}"


class Study:
    """Case after case; what is done is done once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.file = settings.out / "figures.jsonl"
        self.commit = commit_of_code()
        self.codes = {name: hash_of_code(*places) for name, places in CODE.items()}
        self.lines: list[Line] = []
        """All lines that were ever measured into this folder."""
        self.done: dict[Case, Line] = {}
        """The lines measured with the same code and settings."""

    def run(self) -> list[Line]:
        self.settings.out.mkdir(parents=True, exist_ok=True)
        self.lines = list(self._kept_lines())
        cases = list(self._cases())
        self.done = {_case_of(line): line for line in self.lines if self._is_current(line)}
        for number, case in enumerate(cases, start=1):
            if case in self.done:
                continue
            if (failed := self._why_not(case)) is not None:
                # follows from what is kept: not kept itself
                self.done[case] = _untried(case, failed)
                continue
            _say(f"[{number} of {len(cases)}] {case}{self._time_left(cases[number - 1 :])}")
            self._keep(case, self._measure(case))
        return [self.done[case] for case in cases]

    def _cases(self) -> Iterator[Case]:
        for edges in sorted(self.settings.edges):
            for ranks in self.settings.ranks:
                yield Case(edges, "ours", ranks)
            for rival in self.settings.rivals:
                yield Case(edges, rival, 1)

    def _circumstances(self, case: Case) -> Line:
        """Return what a case's figures depend on; what only other contestants depend on does not concern
        it."""
        settings = self.settings
        if case.contestant == "ours":
            device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
            facts: Line = {"device": device, "steps": settings.steps}
        else:
            facts = {"seconds": self._most_seconds(case), "memory_gib": settings.rival_memory_gib}
        machine = {"cpu": cpu_name(), "torch": torch.__version__}
        return {"code": self.codes[case.contestant], **machine, **facts}

    def _is_current(self, line: Line) -> bool:
        return bool(line["circumstances"] == self._circumstances(_case_of(line)))

    def _most_seconds(self, case: Case) -> float:
        own = self.settings.stored_seconds if case.contestant == "stored" else None
        return self.settings.rival_seconds if own is None else own

    def _kept_lines(self) -> Iterator[Line]:
        texts = self.file.read_text().splitlines() if self.file.exists() else []
        for number, text in enumerate(texts, start=1):
            try:
                line = json.loads(text)
                _case_of(line), line["circumstances"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{self.file} line {number}: is damaged or of an older version ({error!r}); remove the "
                    "file, or choose another --out"
                ) from error
            yield line

    def _keep(self, case: Case, line: Line) -> None:
        self.lines.append(line)
        self.done[case] = line
        with atomic_write(self.file) as file:
            file.writelines(json.dumps(one).encode() + b"\n" for one in self.lines)

    def _why_not(self, case: Case) -> Line | None:
        """Return the failure of a rival at a smaller size that makes this one hopeless."""
        if case.contestant == "ours":
            return None
        lines = [line for done, line in self.done.items() if done.contestant == case.contestant]
        smaller = [line for line in lines if line["edges"] < case.edges and "because" not in line]
        for outcome in ("out of memory", "out of time"):
            failed = [line for line in smaller if line["outcome"] == outcome]
            if failed and (outcome == "out of memory" or case.edges > self.settings.rivals_up_to):
                return min(failed, key=lambda line: int(line["edges"]))
        return None

    def _measure(self, case: Case) -> Line:
        log, started = self._log(case.edges), time.perf_counter()
        took = self._measure_ours(case, log) if case.contestant == "ours" else self._measure_rival(case, log)
        return {
            **asdict(case),
            **took,
            "wall_seconds": time.perf_counter() - started,
            "commit": self.commit,
            "circumstances": self._circumstances(case),
        }

    def _measure_rival(self, case: Case, log: Path) -> Line:
        args = ["--rival", case.contestant, "--seconds", self._most_seconds(case)]
        args += ["--memory-gib", self.settings.rival_memory_gib]
        try:
            reached: Line = json.loads(run_python("-m", "benchmarks.scalability_rivals", log, *args).output)
        except subprocess.CalledProcessError as error:
            if error.returncode != -signal.SIGKILL:
                raise
            # the system ends who takes more than there is
            return {"outcome": "out of memory", "events": 0, "seconds": 0.0, "peak_bytes": 0, "width": 0}
        return reached

    def _measure_ours(self, case: Case, log: Path) -> Line:
        file = self.settings.out / "case.json"
        args: list[object] = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={case.ranks}",
        ]
        args += ["-m", "benchmarks.scalability_rank", log, "--out", file, "--steps", self.settings.steps]
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self.settings.device == "cpu" else {}
        try:
            run_python(*args, environment={"OMP_NUM_THREADS": "1", **hidden})
        except subprocess.CalledProcessError as error:
            raise InputError(
                f"{case}: a rank failed, exit code {error.returncode}; see above what it said, and repeat "
                "the command to go on with this case"
            ) from error
        figures = summarise(EventLog(log), json.loads(file.read_text()))
        file.unlink()
        return figures

    def _log(self, edges: int) -> Path:
        folder = self.settings.logs / f"random-{edges}"
        if not (folder / "manifest.json").exists():
            _say(f"making a random log of {edges:.0e} edges in {folder}")
            make_log(folder, kind="random", events=edges, overwrite=True)
        return folder

    def _time_left(self, cases: list[Case]) -> str:
        left = [self._seconds_of(case) for case in cases if case not in self.done]
        if None in left:
            return ""
        minutes = sum(seconds for seconds in left if seconds is not None) / 60
        return f"; about {max(1, round(minutes))} min left in all, beside making logs"

    def _seconds_of(self, case: Case) -> float | None:
        """Return the seconds that a case to come will take, as far as one can tell."""
        lines = [line for done, line in self.done.items() if done.contestant == case.contestant]
        if case.contestant == "ours":
            return our_seconds(case.edges, case.ranks, lines)
        if self._why_not(case) is not None:
            return 0.0
        finished = [line for line in lines if line["outcome"] == "finished"]
        return rival_seconds(case.edges, self._most_seconds(case), finished)


def _untried(case: Case, failed: Line) -> Line:
    """Return the line of a case that is not tried: what ran out of memory would again; of what ran out of
    time nobody knows what would come first."""
    outcome = "out of memory" if failed["outcome"] == "out of memory" else "not tried"
    because = {"edges": failed["edges"], "outcome": failed["outcome"]}
    nothing = {"events": 0, "seconds": 0.0, "peak_bytes": 0, "width": 0}
    return {**asdict(case), "outcome": outcome, "because": because, **nothing}


def _case_of(line: Line) -> Case:
    return Case(line["edges"], line["contestant"], line["ranks"])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__)
    with errors_for_people(PROGRAM, debug=False):
        settings.check()
        started = time.perf_counter()
        lines = Study(settings).run()
        print_table(lines)
        write_markdown(lines, settings.out / "table.md")
        draw_figures(lines, settings.out)
        _say(f"{settings.out}: table.md, figures.jsonl, scalability and cost_per_event as PNG and SVG")
        asked = {"edges": settings.edges, "ranks": settings.ranks, "cores": os.cpu_count()}
        faster = [
            {"than": rival, "edges": edges, "ranks": ranks, "times": times}
            for rival in DENSE
            for (edges, ranks), times in times_faster(lines, rival).items()
        ]
        seconds = time.perf_counter() - started
        found = {"seconds": seconds, "times_faster": faster, "figures": lines}
        print_results_line("scalability", {**asked, **found})


if __name__ == "__main__":
    main()
