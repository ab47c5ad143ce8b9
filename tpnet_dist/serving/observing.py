"""Events that requests tell of: recorded, then synced together to the write-ahead file, then acknowledged."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tpnet_dist.errors import InputError
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.serving.journal import Journal, as_call
from tpnet_dist.serving.questions import as_ids, require_as_many, times_of
from tpnet_dist.serving.schemas import ObserveAnswer, ObserveRequest


class Conflict(Exception):
    """Other events have happened than the request expects."""


class NoRoom(Exception):
    """The disk is full, and nothing of the request was recorded."""


Result = ObserveAnswer | InputError | Conflict | NoRoom


@dataclass(frozen=True)
class Observer:
    """The one writer. Nobody may ask the predictor between recording and syncing."""

    predictor: Predictor
    journal: Journal
    committed: Callable[[int, float], None] = lambda calls, seconds: None
    """Told of each commit."""

    def observe(self, requests: Sequence[ObserveRequest]) -> list[Result]:
        """Take each request whole or not at all, in their order.

        OSError: nobody knows what is on disk, and the process must end; its next start goes on from what is.
        """
        results: list[Result] = []
        calls: list[bytes] = []
        for request in requests:
            try:
                results.append(self._record(request, calls))
            except (InputError, Conflict, NoRoom) as error:
                results.append(error)
        if calls:
            started = time.perf_counter()
            self.journal.commit(calls)
            self.committed(len(calls), time.perf_counter() - started)
        return results

    def _record(self, request: ObserveRequest, calls: list[bytes]) -> ObserveAnswer:
        predictor = self.predictor
        if request.if_events not in (None, predictor.num_events):
            raise Conflict(
                f"if_events is {request.if_events:,}, but {predictor.num_events:,} events have happened; ask "
                "/health, and send what is missing"
            )
        src, dst = as_ids(request.src), as_ids(request.dst)
        require_as_many(src, dst)
        times = times_of(predictor, request.time, len(src))
        given = times
        if request.late == "now":
            times = np.maximum.accumulate(np.maximum(given, np.asarray(predictor.now, given.dtype)))
        features = _rows(request.features)
        call = as_call(
            request.src, request.dst, times.tolist(), None if features is None else features.tolist()
        )
        try:
            self.journal.reserve([*calls, call])
        except OSError as error:
            raise NoRoom(
                f"the write-ahead file cannot grow ({error.strerror}); make room and repeat"
            ) from error
        predictor.observe(src, dst, times, features)
        calls.append(call)
        return ObserveAnswer(
            observed=len(src),
            late=int((times != given).sum()),
            now=predictor.now,
            events=predictor.num_events,
        )


def _rows(given: list[list[int | float]] | None) -> "np.ndarray | None":
    if given is None:
        return None
    if len(widths := {len(row) for row in given}) > 1:
        raise InputError(f"rows of features have {min(widths)} to {max(widths)} numbers; give each as many")
    with np.errstate(over="ignore"):
        rows = np.array(given, np.float64).astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError("a feature is too large for 32 bits; correct it")
    return rows
