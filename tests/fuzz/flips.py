"""Single bits flipped in everything that is stored: each is named, or has no effect.

    python -m tests.fuzz.flips --count 200 [--seed 0] [--only shards features]

ends with exit code 1 if a flip changed what is read without a word. One line per kind, and one JSON line.
"""

import argparse
import json
import operator
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.makings import Makings, make_all
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import read_results
from tpnet_dist.events.reader import EventLog
from tpnet_dist.prediction.trained import open_trained
from tpnet_dist.training.content_digest import content_digest
from tpnet_dist.training.metrics_file import read_lines

NAMED, WITHOUT_EFFECT, SILENT, TRACEBACK = "named", "without effect", "silent", "traceback"


class Named(Exception):
    """Raised where a reader tells of damage without refusing all of the file."""


@dataclass(frozen=True)
class Stored:
    """Files of one kind, and what reading them comes to, as something to compare."""

    files: tuple[Path, ...]
    read: Callable[[], object]
    is_right: Callable[[object, object], bool] = operator.eq
    """Whether what is read now may stand for what was read before."""

    def outcome(self, file: Path, intact: object) -> str:
        """How damage to the file was taken."""
        try:
            return WITHOUT_EFFECT if self.is_right(self.read(), intact) else SILENT
        except Named:
            return NAMED
        except InputError as error:
            # a shard may be named by its folder's manifest, a checkpoint by its folder
            return NAMED if any(name in str(error) for name in (file.name, file.parent.name)) else TRACEBACK
        except Exception:
            traceback.print_exc()
            return TRACEBACK


def stored_kinds(made: Makings) -> dict[str, Stored]:
    log, run = made.log, made.run
    seed = run / "checkpoints" / "seed-0"
    step = sorted(seed.glob("step-*"))[-1]
    return {
        "shards": Stored(tuple(sorted(log.glob("events-*.parquet"))), lambda: _events(log)),
        "features": Stored(tuple(sorted(log.glob("*_features.npy"))), lambda: _features(log)),
        "manifest": Stored((log / "manifest.json",), lambda: EventLog(log).manifest),
        "node ids": Stored((log / "node_ids.parquet",), lambda: EventLog(log).raw_ids().to_pylist()),
        "best.pt": Stored((seed / "best.pt",), lambda: _weights(seed / "best.pt")),
        "step folders": Stored(tuple(sorted(step.iterdir())), lambda: _weights(step)),
        "results": Stored((run / "results.json",), lambda: read_results(run)),
        "metrics": Stored((run / "metrics.jsonl",), lambda: _metrics(run / "metrics.jsonl"), _begins),
    }


def flip_bits(stored: Stored, count: int, seed: int) -> Counter[str]:
    """How so many flips at random places, each by itself, were taken."""
    contents = {file: file.read_bytes() for file in stored.files}
    intact, draws, found = stored.read(), random.Random(seed), Counter[str]()
    sizes = [len(content) for content in contents.values()]
    for _ in range(count):
        [file] = draws.choices(stored.files, sizes)
        bit = draws.randrange(8 * len(contents[file]))
        found[flip(stored, file, contents[file], bit, intact)] += 1
    return found


def flip(stored: Stored, file: Path, content: bytes, bit: int, intact: object) -> str:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    file.write_bytes(changed)
    try:
        outcome = stored.outcome(file, intact)
    finally:
        file.write_bytes(content)
    if outcome in (SILENT, TRACEBACK):
        print(f"{file.name}, bit {bit}: {outcome}", file=sys.stderr)
    return outcome


def _events(folder: Path) -> list[bytes]:
    log = EventLog(folder)
    events = log.read(0, len(log))
    return [column.tobytes() for column in (events.src, events.dst, events.time, events.label)]


def _features(folder: Path) -> list[bytes]:
    log = EventLog(folder)
    parts = (log.edge_features, log.node_features)
    return [part[:].tobytes() for part in parts if part is not None]


def _weights(path: Path) -> str:
    trained = open_trained(path)
    facts = [trained.seed, trained.epoch, trained.log_id, repr(trained.config)]
    return content_digest({"facts": facts, "state": trained.state})


def _metrics(path: Path) -> list[object]:
    lines: list[object] = [line for _, line in read_lines(path)]
    if None in lines:
        raise Named
    return lines


def _begins(found: object, intact: object) -> bool:
    """A file that ends after a line is that of a run which was killed then."""
    assert isinstance(found, list) and isinstance(intact, list)
    return intact[: len(found)] == found


def main(args: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    said = parser.parse_args(None if args is None else list(args))
    with tempfile.TemporaryDirectory() as folder:
        kinds = stored_kinds(make_all(Path(folder)))
        found = {
            kind: flip_bits(stored, said.count, said.seed)
            for kind, stored in kinds.items()
            if not said.only or kind in said.only
        }
    for kind, outcomes in found.items():
        print(f"{kind:13}" + ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common()))
    print(json.dumps({"study": "flips", "count": said.count, "seed": said.seed, "found": found}))
    if any(outcomes[SILENT] or outcomes[TRACEBACK] for outcomes in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
