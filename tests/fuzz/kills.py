"""Random kills while ranks train, save and validate: every run that goes on ends as an undisturbed one.

    python -m tests.fuzz.kills --count 100 --ranks 2 3 [--seed 0]

Each kill is SIGKILL to one rank, to all ranks or to the launcher, at a random moment after training began;
then the command is repeated and its results, losses and figures compared bit by bit. Prints when kills hit,
and one JSON line; exit code 1 if a run differs. A kill takes about half a minute on two cores.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.end_to_end.test_interrupted_training import (
    VICTIMS,
    halves_of,
    kill,
    require_same,
)
from tests.end_to_end.test_training import by_torchrun, train
from tests.support.training_process import TrainingProcess
from tests.support.training_runs import small_log

# checkpoints and small validation batches: saving and validating take a good part of the time
FLAGS = ("--training.epochs", 2, "--checkpoint.every-steps", 3, "--evaluation.batch-size", 5)
EVENTS = 1200


def kill_once(folder: Path, run: Path, whole: Path, ranks: int, draws: random.Random) -> str:
    """Kill a run and go on with it; return during what it was killed. AssertionError if it ends otherwise."""
    process = TrainingProcess.start(folder, run, *FLAGS, ranks=ranks)
    aim, victim = draws.choice(list(MOMENTS)), draws.choice(VICTIMS)
    epoch = draws.choice([1, 2])
    try:
        process.wait_until(lambda: MOMENTS[aim](run, whole, epoch))
        # a whole training takes some seconds
        time.sleep(draws.uniform(0, 0.5) if aim == "training" else draws.uniform(0, 0.02))
        kill(process, victim)
        process.end()
    except (AssertionError, OSError, IndexError):
        # it was done before; then it must be right all the same
        aim = "too late"
        process.end()
    train(folder, run, *FLAGS, ranks=ranks, start=by_torchrun)
    require_same(run, whole)
    assert not halves_of(run), "half a checkpoint is left"
    return aim


def _trains(run: Path, whole: Path, epoch: int) -> bool:
    return any(line["epoch"] == epoch for line in _lines(run, "step"))


def _saves(run: Path, whole: Path, epoch: int) -> bool:
    return _trains(run, whole, epoch) and bool(halves_of(run))


def _validates(run: Path, whole: Path, epoch: int) -> bool:
    """All steps of an epoch are done, and its figures are not there yet."""
    done, wanted = (sum(line["epoch"] == epoch for line in _lines(each, "step")) for each in (run, whole))
    return done == wanted


def _lines(run: Path, kind: str) -> list[dict[str, Any]]:
    """Whole lines of a file that is being written."""
    path = run / "metrics.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


MOMENTS = {"training": _trains, "saving": _saves, "validation": _validates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args()
    draws, found, different = random.Random(said.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as place:
        folder = small_log(Path(place) / "log", EVENTS)
        for ranks in said.ranks:
            train(folder, Path(place) / f"whole-{ranks}", *FLAGS, ranks=ranks, start=by_torchrun)
        for number in range(said.count):
            ranks = said.ranks[number % len(said.ranks)]
            run = Path(place) / f"run-{number}"
            try:
                during = kill_once(folder, run, Path(place) / f"whole-{ranks}", ranks, draws)
            except AssertionError as error:
                during, different = "different", different + 1
                print(f"kill {number}, {ranks} ranks: {error}", file=sys.stderr, flush=True)
            found[f"{during}, {ranks} ranks"] += 1
            print(f"{number + 1} of {said.count}: {during}, {ranks} ranks", file=sys.stderr, flush=True)
    for what, count in found.most_common():
        print(f"{what:24} {count:4}")
    print(json.dumps({"study": "kills", "count": said.count, "different": different, "found": found}))
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
