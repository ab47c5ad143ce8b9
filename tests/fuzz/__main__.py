"""Hostile cases of all kinds, as many as fit into some minutes:

    python -m tests.fuzz --minutes 30 [--seed 0] [--only "raw text" settings]

prints what cases of each kind were taken for, each failure with its case, and one JSON line; exit
code 1 if there was a failure.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import CASES
from tests.fuzz.makings import make_all
from tests.fuzz.trying import Tried, try_cases

EXAMPLES = 25
"""Cases of one kind in a row, before it is another kind's turn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(CASES))
    said = parser.parse_args()
    found: dict[str, Counter[str]] = {kind: Counter() for kind in said.only or CASES}
    failures: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        made, number = make_all(Path(folder)), said.seed
        deadline = time.monotonic() + 60 * said.minutes
        while time.monotonic() < deadline:
            for kind, outcomes in found.items():
                tried = try_cases(CASES[kind], made, examples=EXAMPLES, seed=number)
                outcomes.update(tried.outcomes)
                _tell(kind, number, tried, failures)
            number += 1
    _show(found, failures)
    sys.exit(bool(failures))


def _tell(kind: str, number: int, tried: Tried, failures: list[tuple[str, str]]) -> None:
    if tried.failure is not None:
        failures.append((kind, tried.failure))
        print(f"{kind}, seed {number}: {tried.failure}", file=sys.stderr, flush=True)


def _show(found: dict[str, Counter[str]], failures: list[tuple[str, str]]) -> None:
    for kind, outcomes in found.items():
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{kind:16} {sum(outcomes.values()):7,}: {counts}")
    total = sum(sum(outcomes.values()) for outcomes in found.values())
    print(f"{total:,} cases, {len(failures)} failures")
    print(json.dumps({"study": "fuzz", "cases": total, "failures": len(failures), "kinds": found}))


if __name__ == "__main__":
    main()
