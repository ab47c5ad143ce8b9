"""What a server keeps between its lives: the observed events, and rows as they were at some moment.

STATE/events.wal    the write-ahead file, which alone counts
STATE/rows.pt       rows after some of these events; without it, or damaged, all are recorded again
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpnet_dist.errors import InputError
from tpnet_dist.files.folder_lock import folder_lock
from tpnet_dist.prediction.kept_rows import RowsFile, UnusableRows
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.serving.journal import Journal, ObservedCalls, PastOfLog, read_journal
from tpnet_dist.serving.questions import as_ids

JOURNAL, ROWS = "events.wal", "rows.pt"
KEEP_AFTER = 1_000_000
"""Events recorded at a start that are worth keeping rows at once; else they are kept at the end."""


@dataclass
class ServedState:
    """A predictor that knows all that was acknowledged, and the file that the next events go to."""

    folder: Path
    predictor: Predictor
    journal: Journal
    kept_events: int
    """How many events the kept rows know."""
    say: Callable[[str], None]

    def keep_rows(self) -> None:
        """Keep rows. They only save time, so an error is reported and ignored."""
        if self.predictor.num_events <= self.kept_events:
            return
        path = self.folder / ROWS
        try:
            self.kept_events = self.predictor.keep_rows(path, self.journal.id)
        except OSError as error:
            self.say(f"{path}: rows are not kept ({error.strerror}); the next start records them again")


@contextmanager
def served_state(
    run: Path,
    folder: Path,
    *,
    data: Path | None,
    seed: int | None,
    capacity: int,
    say: Callable[[str], None],
) -> Iterator[ServedState]:
    """The only holder of the folder. Rows are kept at the end, if all went well."""
    if not folder.parent.is_dir():
        raise InputError(
            f"{folder}: there is no such folder to put it into; make it, or choose another --state"
        )
    with folder_lock(folder):
        path, rows = folder / JOURNAL, folder / ROWS
        found = read_journal(path) if path.exists() else None

        def load(kept: RowsFile | None) -> Predictor:
            return Predictor.load(run, data=data, seed=seed, capacity=capacity, rows=kept)

        kept = None if found is None else RowsFile(rows, found.id, len(found.calls))
        try:
            predictor = load(kept)
        except UnusableRows as error:
            say(f"{error}, or let it be replaced when the server ends")
            predictor = load(None)
        past = PastOfLog(predictor.log.manifest.log_id, predictor.num_events)
        if found is None:
            folder.mkdir(exist_ok=True)
            journal = Journal.begin(path, past)
        else:
            journal = Journal.go_on(path, found, past)
            repeat(predictor, found.calls)
        state = ServedState(folder, predictor, journal, predictor.num_events_kept, say)
        if predictor.num_events - state.kept_events >= KEEP_AFTER:
            state.keep_rows()
        yield state
        journal.close()
        state.keep_rows()


def repeat(predictor: Predictor, calls: ObservedCalls) -> None:
    """Observe again what was observed in another life."""
    if len(calls):
        src, dst = as_ids(calls.src), as_ids(calls.dst)
        times = np.array(calls.time, predictor.log.manifest.time_dtype)
        predictor.repeat(src, dst, times, calls.features or None, calls.sizes)
