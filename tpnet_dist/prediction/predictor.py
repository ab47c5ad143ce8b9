"""`Predictor`: which links come next, asked and told in the ids and times of the user's own data.

predictor = Predictor.load("runs/mine")                     # everything in the log has happened
predictor.score(["ann", "bob"], ["x", "y"], now)            # logits
predictor.top_k(["ann"], now, k=10)                         # of all destinations
predictor.observe(["ann"], ["x"], [now])                    # from here on scores know of it
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import Features
from tpnet_dist.events.raw_ids import UNKNOWN, Dense, Ids, RawIds, some_of
from tpnet_dist.events.reader import EventLog
from tpnet_dist.prediction.build import Parts, build_parts, usable_device
from tpnet_dist.prediction.kept_rows import RowsFile, rows_key, write_rows
from tpnet_dist.prediction.link_scorer import Logits
from tpnet_dist.prediction.saved_events import load_later, save_state
from tpnet_dist.prediction.times import GivenTimes, as_times, require_order, require_present
from tpnet_dist.prediction.trained import Trained, open_trained

GivenIds = int | str | Sequence[Any] | npt.NDArray[Any]

DEFAULT_CAPACITY, MAX_CAPACITY = 1000, 1 << 30
LINKS_HELD = 1 << 20
"""Scores of several sources that are kept at a time."""
_EARLIER = "ask about times from then on, or load with an earlier until"


@dataclass(frozen=True)
class TopK:
    """Holds the best destinations of each source, best first."""

    destinations: npt.NDArray[Any]
    """(sources, k), by the user's ids."""
    scores: Logits
    """(sources, k)."""


class Predictor:
    """A trained model and all that has happened. One process, whatever number of ranks trained it."""

    def __init__(self, trained: Trained, log: EventLog, parts: Parts, rows_key: Mapping[str, Any]) -> None:
        """Use `load`."""
        self._rows_key = rows_key
        self.trained, self.log = trained, log
        self.ids: RawIds = parts.ids
        self._parts, self._past, self._scorer = parts, parts.past, parts.scorer
        self._holds_back = False

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        data: Path | str | None = None,
        config: Config | None = None,
        seed: int | None = None,
        until: int | None = None,
        as_evaluated: bool = False,
        capacity: int = DEFAULT_CAPACITY,
        device: torch.device | str | None = None,
        rows: RowsFile | None = None,
    ) -> "Predictor":
        """Open what was trained, then record the events of its log, since checkpoints hold no rows; those
        too that were appended since.

        `path`: the folder of a run, a `best.pt`, a `step-N/`, a predictor that was saved, or a checkpoint of
        the released code (then `data`, and `config` for its λ). Pickles are read as tensors, never run.
        `data`: the data folder, if it has moved. `seed`: which one of a run's, by default the first.
        `until`: how many of the log's events have happened, by default all.
        `as_evaluated`: leave out of the rows what training kept out of them (events of nodes that were to be
        met as new), so that scores of the test part are those of the run's own evaluation.
        `capacity`: how many nodes may be admitted that are not in the log.
        `rows`: a file of `keep_rows`; its events are not recorded again, and those observed must be repeated.
        """
        trained = open_trained(Path(path), seed=seed, config=config)
        folder = str(data or trained.config.data.folder)
        if not folder:
            raise InputError(f"{path}: does not say which data it belongs to; name the data folder")
        trained = trained.with_data(folder)
        saved = trained.saved
        log = trained.open_log(Path(path), as_it_was=as_evaluated or saved is not None)
        trained = trained.with_width_of(log)
        if saved is not None:
            if until is not None:
                raise InputError(f"{path}: holds a past of its own; leave until away")
            until, as_evaluated = int(saved["until"]), bool(saved["as_evaluated"])
            capacity = max(capacity, int(saved["capacity"]))
        until = len(log) if until is None else until
        _require_within("until", until, len(log), "the events of the log")
        _require_within("capacity", capacity, MAX_CAPACITY, "so that ids stay small")
        chosen = usable_device(device)
        key = rows_key(
            trained, log, until=until, as_evaluated=as_evaluated, capacity=capacity, device=chosen.type
        )
        parts = build_parts(
            trained,
            log,
            until=until,
            as_evaluated=as_evaluated,
            capacity=capacity,
            device=chosen,
            rows=None if rows is None else rows.read(key, until),
        )
        if saved is not None:
            try:
                load_later(saved, parts)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
        return cls(trained, log, parts, key)

    @property
    def now(self) -> int | float:
        """The time of the last event that has happened, as the log counts time."""
        return self._past.now

    @property
    def num_events(self) -> int:
        """How many events have happened: those of the log, and those observed."""
        return self._past.num_events

    @property
    def num_observed(self) -> int:
        """How many of them were observed."""
        return self._past.num_events - self._past.until

    @property
    def num_events_kept(self) -> int:
        """How many events the rows knew that it was loaded with."""
        return self._past.in_rows

    @property
    def edge_width(self) -> int:
        """How many features an event has."""
        features = self._past.edge_features
        return 0 if features is None else features.width

    def score(self, src: GivenIds, dst: GivenIds, time: GivenTimes, *, probability: bool = False) -> Logits:
        """Logits of links, float32; the more, the likelier. `probability`: from 0 to 1 instead.

        A probability is that of the link against one random destination, as it was trained; how often links
        come about at all is not in it. Whoever is unknown is scored as a node without history: all unknown
        sources alike, and all unknown destinations. No time may be before `now`; one time serves all.
        """
        src_B, dst_B = self.ids.find_links(*_same_length(src, dst))
        times = as_times(time, self.log.manifest, len(src_B))
        require_present(times, self.now, _EARLIER)
        logits_B = self._scorer.logits(src_B, dst_B[:, None], times)[:, 0]
        return _probabilities(logits_B) if probability else logits_B

    def top_k(
        self,
        src: GivenIds,
        time: GivenTimes,
        k: int,
        candidates: GivenIds | None = None,
        *,
        probability: bool = False,
    ) -> TopK:
        """The best destinations of each source among all, or among the candidates; exact.

        All are the nodes of the log, of its destinations' side where it has two, and those observed since. A
        candidate that is given twice is one. Of equal scores the destination that comes first among the
        candidates is first.
        """
        sources = _as_ids(src)
        target_C = self.ids.destinations() if candidates is None else self._known(candidates)
        if not 1 <= k <= len(target_C):
            remedy = "raise it" if k < 1 else "lower it, or give more candidates"
            raise InputError(f"k is {k:,}, but must be within 1…{len(target_C):,}, the candidates; {remedy}")
        times = as_times(time, self.log.manifest, len(sources))
        require_present(times, self.now, _EARLIER)
        source_B = self.ids.find_sources(sources)
        best_Bk, logits_Bk = np.empty((len(sources), k), np.int64), np.empty((len(sources), k), np.float32)
        for here in _some_at_a_time(len(sources), len(target_C)):
            target_BC = np.broadcast_to(target_C, (len(source_B[here]), len(target_C)))
            logits_BC = self._scorer.logits(source_B[here], target_BC, times[here])
            for row, logits_C in enumerate(logits_BC, here.start):
                places = _best(logits_C, k)
                best_Bk[row], logits_Bk[row] = target_C[places], logits_C[places]
        return TopK(self.ids.raw_of(best_Bk), _probabilities(logits_Bk) if probability else logits_Bk)

    def observe(
        self, src: GivenIds, dst: GivenIds, time: GivenTimes, features: npt.ArrayLike | None = None
    ) -> None:
        """Events that have happened since, in order of time, none before `now`; later scores know of them.

        Nodes nobody knows yet are admitted. More events than a batch of the evaluation has are cut into
        batches, whose events see the rows before the batch; with `timestamps` batching, give events of equal
        times together. `features`: a row for each event, if the log has edge features. All or nothing.
        """
        sources, destinations = _same_length(src, dst)
        times = as_times(time, self.log.manifest, len(sources))
        require_order(times, self.now, "event")
        rows = None if features is None else _as_rows(features)
        self._past.check_features(rows, len(sources))
        self._past.add(*self.ids.admit_links(sources, destinations), times, rows)
        if not self._holds_back:
            self._past.record()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What is observed within is met as a neighbour at once, but recorded in the rows at the end,
        together: so the events of a batch are scored in training and evaluation."""
        if self._holds_back:
            raise InputError("a batch is under way already; end it before the next")
        self._holds_back = True
        try:
            yield
        finally:
            self._holds_back = False
            self._past.record()

    def save(self, path: Path | str) -> None:
        """Weights and what was observed, in one file, whole or not at all; `load` goes on from there.

        The data folder stays where it is, and rows are recorded anew.
        """
        if self._holds_back:
            raise InputError("a batch is not at its end; save after it")
        save_state(Path(path), self.trained, self._parts)

    def repeat(
        self,
        src: GivenIds,
        dst: GivenIds,
        time: GivenTimes,
        features: npt.ArrayLike | None,
        sizes: Sequence[int],
    ) -> None:
        """Calls of `observe` with so many events each, at once: faster by far, and the same to the last
        bit."""
        sources, destinations = _same_length(src, dst)
        times = as_times(time, self.log.manifest, len(sources))
        require_order(times, self.now, "event")
        rows = None if features is None else _as_rows(features)
        self._past.check_features(rows, len(sources))
        self._past.repeat(*self.ids.admit_in_turn(sources, destinations, sizes), times, rows, sizes)

    def keep_rows(self, path: Path, past: str) -> int:
        """Write rows as they are, for `load`; return how many events are in them, 0 if the model has no rows.
        `past`: a name for the events that were observed."""
        if (rows := self._past.kept_rows()) is None:
            return 0
        write_rows(path, rows, self._rows_key, past)
        return rows.num_events

    def _known(self, candidates: GivenIds) -> Dense:
        """Return the candidates in their order, each once; refuse unknown ones."""
        ids = _as_ids(candidates)
        dense_C = self.ids.find(ids, "dst")
        if (dense_C == UNKNOWN).any():
            unknown = [ids[row] for row in np.flatnonzero(dense_C == UNKNOWN)]
            raise InputError(f"{len(unknown):,} candidates are unknown ({some_of(unknown)}); leave them away")
        _, first = np.unique(dense_C, return_index=True)
        return dense_C[np.sort(first)]


def _require_within(name: str, value: int, most: int, why: str) -> None:
    if not 0 <= value <= most:
        remedy = "raise it" if value < 0 else "lower it"
        raise InputError(f"{name} is {value:,}, but must be within 0…{most:,}, {why}; {remedy}")


def _as_ids(given: GivenIds) -> Ids:
    try:
        ids = np.atleast_1d(np.asarray(given))
    except ValueError as error:
        raise InputError(f"ids are lists of unequal lengths ({error}); give one list of ids") from error
    if ids.ndim > 1:
        raise InputError(f"ids have the shape {ids.shape}, but are one list; flatten them")
    # numpy would make text of a NaN among text
    is_mixed = ids.dtype.kind == "U" and not isinstance(given, np.ndarray)
    return np.atleast_1d(np.asarray(given, object)) if is_mixed else ids


def _as_rows(given: npt.ArrayLike) -> Features:
    try:
        with np.errstate(over="ignore"):  # what is too large is infinite, which is refused
            return np.asarray(given).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"features are no numbers: {error}; give a row of numbers for each event") from error


def _same_length(src: GivenIds, dst: GivenIds) -> tuple[Ids, Ids]:
    sources, destinations = _as_ids(src), _as_ids(dst)
    if len(sources) != len(destinations):
        raise InputError(
            f"{len(sources):,} sources and {len(destinations):,} destinations; give as many of each"
        )
    return sources, destinations


def _some_at_a_time(num_sources: int, num_targets: int) -> Iterator[slice]:
    some = max(1, LINKS_HELD // num_targets)
    return (slice(start, start + some) for start in range(0, num_sources, some))


def _best(scores_C: Logits, k: int) -> npt.NDArray[np.int64]:
    """The places of the k highest, highest first, earlier ones first among equals."""
    kth = np.partition(scores_C, len(scores_C) - k)[len(scores_C) - k]
    few = np.flatnonzero(scores_C >= kth)
    order: npt.NDArray[np.int64] = few[np.argsort(-scores_C[few], kind="stable")][:k]
    return order


def _probabilities(logits: Logits) -> Logits:
    return torch.from_numpy(logits).sigmoid().numpy()
