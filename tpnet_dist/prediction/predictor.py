"""`Predictor`: which links come next, asked and told in the ids and times of the user's own data.

predictor = Predictor.load("runs/mine")                     # everything in the log has happened
predictor.score(["ann", "bob"], ["x", "y"], now)            # logits
predictor.top_k(["ann"], now, k=10)                         # of all destinations
predictor.observe(["ann"], ["x"], [now])                    # from here on scores know of it
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.calibration import Calibration
from tpnet_dist.events.features import Features
from tpnet_dist.events.raw_ids import UNKNOWN, Dense, Ids, RawIds, Side, some_of
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import Times
from tpnet_dist.prediction.build import Parts, build_parts, usable_device
from tpnet_dist.prediction.candidates import DEFAULT_COUNT, STRATEGIES, CandidateChoice, Strategy
from tpnet_dist.prediction.given import (
    GivenIds,
    Unknown,
    as_ids,
    as_rows,
    is_refusing,
    require_within,
    same_length,
)
from tpnet_dist.prediction.kept_rows import RowsFile, rows_key, write_rows
from tpnet_dist.prediction.link_scorer import Logits
from tpnet_dist.prediction.ranking import Best, TopK, everywhere, require_k, some_at_a_time
from tpnet_dist.prediction.saved_events import load_later, save_state
from tpnet_dist.prediction.times import GivenTimes, as_times, require_order, require_present
from tpnet_dist.prediction.trained import Trained, open_trained

DEFAULT_CAPACITY, MAX_CAPACITY = 1000, 1 << 30
_UNCALIBRATED = Calibration(slope=1.0, offset=0.0, events=0)
_EARLIER = "ask about times from then on, or load with an earlier until"
_SCORE_THEM = 'correct them, or pass unknown="score" to score them as nodes without history'


class Predictor:
    """A trained model and all that has happened. One process, whatever number of ranks trained it."""

    def __init__(self, trained: Trained, log: EventLog, parts: Parts, rows_key: Mapping[str, Any]) -> None:
        """Use `load`."""
        self._rows_key = rows_key
        self.trained, self.log = trained, log
        self.ids: RawIds = parts.ids
        self._parts, self._past, self._scorer = parts, parts.past, parts.scorer
        self._candidates = CandidateChoice(parts.past, parts.ids)
        self._holds_back = False

    def __repr__(self) -> str:
        trained, log, past = self.trained, self.log, self._past
        num_nodes = log.num_nodes + len(self.ids.newcomers)
        return (
            f"Predictor({trained.config.model.title} of {trained.path}, seed {trained.seed}, epoch "
            f"{trained.epoch + 1}; {past.until:,} of {len(log):,} events of {log.folder}, "
            f"{self.num_observed:,} observed; {num_nodes:,} nodes; now {self.now}; "
            f"{self.about_probabilities()})"
        )

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
        require_within("until", until, len(log), "the events of the log")
        require_within("capacity", capacity, MAX_CAPACITY, "so that ids stay small")
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

    def about_probabilities(self) -> str:
        """Say in words what probabilities are worth."""
        calibration = self.trained.calibration
        if calibration is None:
            return "probabilities not calibrated"
        return f"probabilities calibrated on {calibration.events:,} events of validation"

    def probabilities(self, logits: Logits) -> Logits:
        """Return probabilities that this, and not one random destination, is the true link. They do not
        say how often links come about. They are calibrated on events of validation if the run is finished."""
        calibration = self.trained.calibration or _UNCALIBRATED
        return calibration.probabilities(logits)

    def score(
        self,
        src: GivenIds,
        dst: GivenIds,
        time: GivenTimes,
        *,
        probability: bool = False,
        unknown: Unknown = "refuse",
    ) -> Logits:
        """Logits of links, float32; the more, the likelier. `probability`: `probabilities` instead.

        `unknown="score"`: whoever is unknown is scored as a node without history, all unknown sources alike,
        and all unknown destinations, instead of being refused. No time may be before `now`; one time serves
        all.
        """
        sources, destinations = same_length(src, dst)
        if is_refusing(unknown):
            self._require_known(sources, "src", "sources")
            self._require_known(destinations, "dst", "destinations")
        src_B, dst_B = self.ids.find_links(sources, destinations)
        times = as_times(time, self.log.manifest, len(src_B))
        require_present(times, self.now, self.log.manifest, _EARLIER)
        logits_B = self._scorer.logits(src_B, dst_B[:, None], times)[:, 0]
        return self.probabilities(logits_B) if probability else logits_B

    def top_k(
        self,
        src: GivenIds,
        time: GivenTimes,
        k: int,
        candidates: GivenIds | Strategy | None = None,
        *,
        probability: bool = False,
        count: int = DEFAULT_COUNT,
        exclude_seen: bool = False,
        exclude_self: bool = False,
        unknown: Unknown = "refuse",
    ) -> TopK:
        """The best destinations of each source among all, or among the candidates; exact among these.

        All are the nodes of the log, of its destinations' side where it has two, and those observed since. A
        candidate that is given twice is one. Of equal scores the destination that comes first among the
        candidates is first. `candidates` may say how to choose `count` of them for each source: "recent",
        "popular" or "two-hop" (prediction/candidates.py). `exclude_seen`, `exclude_self`: without those the
        source has had an event with, without the source itself. `probability`, `unknown`: as for `score`.
        """
        sources = as_ids(src)
        if is_refusing(unknown):
            self._require_known(sources, "src", "sources")
        times = as_times(time, self.log.manifest, len(sources))
        require_present(times, self.now, self.log.manifest, _EARLIER)
        source_B = self.ids.find_sources(sources)
        strategy, target_C = self._among(candidates)
        most = len(target_C) if strategy is None else min(count, len(target_C))
        require_k(k, most)
        best = Best.empty(len(sources), k)
        for here in some_at_a_time(len(sources), most):
            some = source_B[here]
            without = self._without(some, seen=exclude_seen, itself=exclude_self)
            if strategy is None:
                target_BC, is_there_BC = everywhere(target_C, len(some), without)
            else:
                target_BC, is_there_BC = self._candidates.choose(strategy, some, count, without)
            best.fill(here, target_BC, is_there_BC, self._scorer.logits(some, target_BC, times[here]))
        found = self.ids.raw_of(best.target_Bk)
        likely_Bk = self.probabilities(best.logits_Bk)
        return TopK(found, likely_Bk if probability else best.logits_Bk, likely_Bk, best.found_Bk)

    def embeddings(self, ids: GivenIds, time: GivenTimes | None = None, side: Side = "src") -> Features:
        """Rows of the memory at a time, by default now: (nodes, layers, width), float32.

        They are random projections of walks: inner products of two nodes' rows tell of the walks that both
        have in common. Models without rows of their own are refused, as are unknown ids.
        """
        nodes, memory = as_ids(ids), self._past.memory
        if memory is None:
            raise InputError(
                f"{self.trained.config.model.title} keeps no rows of nodes; train a model that does, as TPNet"
            )
        self._require_known(nodes, side, "ids", "correct them, or leave them away")
        times = as_times(self.now if time is None else time, self.log.manifest, len(nodes))
        require_present(times, self.now, self.log.manifest, _EARLIER)
        dense = torch.from_numpy(self.ids.find(nodes, side))
        rows = memory.look(torch.from_numpy(np.unique(dense.numpy())), products=False)
        seconds = torch.from_numpy(self.log.seconds(times)).to(rows.clock_U.device)
        read: Features = rows.read(dense.to(rows.nodes_U.device), seconds).float().cpu().numpy()
        return read

    def observe(
        self, src: GivenIds, dst: GivenIds, time: GivenTimes, features: npt.ArrayLike | None = None
    ) -> None:
        """Events that have happened since, in order of time, none before `now`; later scores know of them.

        Nodes nobody knows yet are admitted. More events than a batch of the evaluation has are cut into
        batches, whose events see the rows before the batch; with `timestamps` batching, give events of equal
        times together. `features`: a row for each event, if the log has edge features. All or nothing.
        """
        sources, destinations, times, rows = self._events(src, dst, time, features)
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

    def _among(self, candidates: GivenIds | Strategy | None) -> tuple[str | None, Dense]:
        """Return how candidates are chosen for each source, and all that there are; None: they are these."""
        if candidates is None or (isinstance(candidates, str) and candidates in STRATEGIES):
            chosen = None if candidates in (None, "all") else str(candidates)
            return chosen, self.ids.destinations()
        if isinstance(candidates, str):
            raise InputError(
                f"candidates is {candidates!r}, but must be one of {', '.join(STRATEGIES)}, or a list of "
                "ids; choose one of these"
            )
        return None, self._known(candidates)

    def _without(self, source_B: Dense, *, seen: bool, itself: bool) -> list[Dense] | None:
        """Return what each source is not to be offered; None: nothing."""
        if not (seen or itself):
            return None
        left_out = self._candidates.seen(source_B) if seen else [source_B[:0]] * len(source_B)
        if not itself or self.ids.is_bipartite:
            return left_out
        return [np.append(some, source) for some, source in zip(left_out, source_B, strict=True)]

    def _require_known(self, ids: Ids, side: Side, what: str, remedy: str = _SCORE_THEM) -> None:
        is_unknown = self.ids.find(ids, side) == UNKNOWN
        if is_unknown.any():
            named = list(dict.fromkeys(ids[is_unknown].tolist()))
            raise InputError(f"{len(named):,} {what} are unknown ({some_of(named)}); {remedy}")

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
        sources, destinations, times, rows = self._events(src, dst, time, features)
        self._past.repeat(*self.ids.admit_in_turn(sources, destinations, sizes), times, rows, sizes)

    def keep_rows(self, path: Path, past: str) -> int:
        """Write rows as they are, for `load`; return how many events are in them, 0 if the model has no rows.
        `past`: a name for the events that were observed."""
        if (memory := self._past.memory) is None:
            return 0
        write_rows(path, memory.recorded(), self.num_events, self._rows_key, past)
        return self.num_events

    def _events(
        self, src: GivenIds, dst: GivenIds, time: GivenTimes, features: npt.ArrayLike | None
    ) -> tuple[Ids, Ids, Times, Features | None]:
        """Return events as arrays; refuse what cannot be observed."""
        sources, destinations = same_length(src, dst)
        times = as_times(time, self.log.manifest, len(sources))
        require_order(times, self.now, self.log.manifest, "event")
        rows = None if features is None else as_rows(features)
        self._past.check_features(rows, len(sources))
        return sources, destinations, times, rows

    def _known(self, candidates: GivenIds) -> Dense:
        """Return the candidates in their order, each once; refuse unknown ones."""
        ids = as_ids(candidates)
        dense_C = self.ids.find(ids, "dst")
        if (dense_C == UNKNOWN).any():
            unknown = [ids[row] for row in np.flatnonzero(dense_C == UNKNOWN)]
            raise InputError(f"{len(unknown):,} candidates are unknown ({some_of(unknown)}); leave them away")
        _, first = np.unique(dense_C, return_index=True)
        return dense_C[np.sort(first)]
