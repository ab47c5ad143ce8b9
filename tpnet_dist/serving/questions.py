"""Questions to the predictor, put so that those of several requests are answered together.

Each is checked by itself, by the predictor's rules, so that a bad one spoils no other. What takes long is
answered in pieces: short questions are answered in between.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tpnet_dist.errors import InputError
from tpnet_dist.events.raw_ids import UNKNOWN, Ids, Side, some_of
from tpnet_dist.events.shards import Times
from tpnet_dist.prediction.link_scorer import Logits
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.prediction.times import as_times, require_present
from tpnet_dist.serving.schemas import ScoreAnswer, ScoreRequest, TopKAnswer, TopKRequest, moments_of

Answer = TypeVar("Answer")
Pieces = Generator[None, None, Answer]
"""Stops before each piece; its value is the answer."""

FEWEST, MOST = 8, 500
"""Links of a piece."""
_PIECE_SECONDS = 0.012


@dataclass(frozen=True)
class Links:
    """What one request wants scored."""

    src: Ids
    dst: Ids
    times: Times
    probability: bool

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, here: slice) -> "Links":
        return Links(self.src[here], self.dst[here], self.times[here], self.probability)


class PieceSize:
    """Chooses how many links to score at once, so that a piece takes about as long on any machine."""

    def __init__(self) -> None:
        self.links = FEWEST

    def learn(self, links: int, seconds: float) -> None:
        fitting = int(links * _PIECE_SECONDS / max(seconds, 1e-6))
        self.links = min(max(fitting, self.links // 2, FEWEST), 2 * self.links, MOST)


def links_of(predictor: Predictor, request: ScoreRequest) -> Links:
    src, dst = as_ids(request.src), as_ids(request.dst)
    require_as_many(src, dst)
    times = present_times(predictor, request.time, len(src))
    if request.unknown == "refuse":
        _require_known(predictor, {"src": src, "dst": dst})
    return Links(src, dst, times, request.probability)


def score_together(predictor: Predictor, some: Sequence[Links]) -> list[Logits]:
    """The scores of each, in one call for all that want logits, and one for all that want probabilities."""
    scores: dict[int, Logits] = {}
    for probability in (False, True):
        places = [place for place, links in enumerate(some) if links.probability is probability]
        if not places:
            continue
        src, dst, times = (
            np.concatenate([getattr(some[place], name) for place in places])
            for name in ("src", "dst", "times")
        )
        # whose ids had to be known, and were not, was refused before
        together = predictor.score(src, dst, times, probability=probability, unknown="score")
        stops = np.cumsum([len(some[place]) for place in places])
        scores |= zip(places, np.split(together, stops[:-1]), strict=True)
    return [scores[place] for place in range(len(some))]


def score_answer(predictor: Predictor, scores: Logits) -> ScoreAnswer:
    return ScoreAnswer(scores=scores.tolist(), now=predictor.now, events=predictor.num_events)


def score_in_pieces(predictor: Predictor, request: ScoreRequest, size: PieceSize) -> Pieces[ScoreAnswer]:
    links = links_of(predictor, request)
    parts: list[Logits] = []
    done = 0
    while done < len(links):
        yield
        piece = links[slice(done, done + size.links)]
        started = time.perf_counter()
        parts += score_together(predictor, [piece])
        size.learn(len(piece), time.perf_counter() - started)
        done += len(piece)
    return score_answer(predictor, np.concatenate(parts))


def top_k_in_pieces(
    predictor: Predictor, request: TopKRequest, size: PieceSize, most_links: int
) -> Pieces[TopKAnswer]:
    """Exact: the best of all are among the best of each piece."""
    sources = as_ids(request.src)
    times = present_times(predictor, request.time, len(sources))
    if request.unknown == "refuse":
        _require_known(predictor, {"src": sources})
    k, chosen = request.k, request.candidates if isinstance(request.candidates, str) else None
    candidates = _candidates(predictor, None if isinstance(request.candidates, str) else request.candidates)
    most = len(candidates) if chosen is None else min(request.count, len(candidates))
    if k > most:
        raise InputError(f"k is {k:,}, but there are {most:,} candidates; lower it")
    if (links := len(sources) * most) > most_links:
        raise InputError(
            f"{len(sources):,} sources with {most:,} candidates each are {links:,} links, but a "
            f"request may have {most_links:,}; ask for fewer at a time, or give candidates"
        )
    answer = TopKAnswer(destinations=[], scores=[], now=predictor.now, events=predictor.num_events)
    for source in range(len(sources)):
        here, best, scores = slice(source, source + 1), candidates[:0], np.empty(0, np.float32)
        done = 0
        while done < most:
            yield
            piece = candidates[done : done + size.links] if chosen is None else chosen
            count = len(piece) if chosen is None else most
            started = time.perf_counter()
            found = predictor.top_k(
                *(sources[here], times[here], min(k, count), piece),
                count=count,
                probability=request.probability,
                exclude_seen=request.exclude_seen,
                exclude_self=request.exclude_self,
                unknown="score",
            )
            size.learn(count, time.perf_counter() - started)
            left = found.found[0]
            best = np.concatenate([best, found.destinations[0][left]])
            scores = np.concatenate([scores, found.scores[0][left]])
            order = np.argsort(-scores, kind="stable")[:k]
            best, scores = best[order], scores[order]
            done += count
        answer.destinations.append(best.tolist())
        answer.scores.append(scores.tolist())
    return answer


def as_ids(given: Sequence[int | str]) -> Ids:
    """Numbers stay numbers and text stays text."""
    are_numbers = all(isinstance(one, int) for one in given)
    return np.array(given, np.int64 if are_numbers else object)


def require_as_many(src: Ids, dst: Ids) -> None:
    if len(src) != len(dst):
        raise InputError(f"{len(src):,} sources and {len(dst):,} destinations; give as many of each")


def present_times(predictor: Predictor, given: Any, count: int) -> Times:  # noqa: ANN401 — see moments_of
    times = times_of(predictor, predictor.now if given is None else given, count)
    require_present(times, predictor.now, predictor.log.manifest)
    return times


def times_of(predictor: Predictor, given: Any, count: int) -> Times:  # noqa: ANN401 — see moments_of
    return as_times(moments_of(given), predictor.log.manifest, count)


def _require_known(predictor: Predictor, given: Mapping[Side, Ids]) -> None:
    unknown: list[Any] = []
    for side, ids in given.items():
        unknown += ids[predictor.ids.find(ids, side) == UNKNOWN].tolist()
    if unknown:
        raise InputError(
            f"{len(unknown):,} of the ids are unknown ({some_of(unknown)}); correct them, or say "
            '"unknown": "score"'
        )


def _candidates(predictor: Predictor, given: Sequence[int | str] | None) -> Ids:
    """Return the candidates, each once, in their order."""
    if given is None:
        return predictor.ids.raw_of(predictor.ids.destinations())
    ids = as_ids(given)
    dense_C = predictor.ids.find(ids, "dst")
    if (is_unknown_C := dense_C == UNKNOWN).any():
        unknown = ids[is_unknown_C].tolist()
        raise InputError(
            f"{len(unknown):,} of the candidates are unknown ({some_of(unknown)}); leave them away"
        )
    _, first = np.unique(dense_C, return_index=True)
    return ids[np.sort(first)]
