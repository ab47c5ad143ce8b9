"""Walk matrices by brute force: every temporal walk written out, scored by the definition, summed.

A[l][u][v] is the sum of the scores of all l-step temporal walks from u to v (TPNet, the equation of the
unified framework). A walk starts at u at the reading time T and goes back in time, newest event first; A[0]
is the identity. Nothing here is incremental, so it can share no mistake with an implementation.

**Which events chain.** A walk is a sequence of events with strictly decreasing *batch index*:

- Batches of one event: the index is the event's position in the stream. The definition asks for strictly
  decreasing times, and the theorem for pairwise different ones; the one-by-one algorithms take events in
  order and never look whether times are equal, so two events of the same time chain if one comes later in
  the stream. Position thus breaks ties, as if equal times differed by an amount too small to matter to a
  score.
- Batches of all events of one time: a strictly decreasing index is a strictly decreasing time, the
  definition.
- Batches of B events: events of a batch all see the state before it, so a walk uses at most one event of
  each batch, although their times may differ. Events of equal time chain where a batch border lies between
  them.

An event {u, v} can be traversed u → v and v → u. A self-loop {u, u} is traversed in both these ways as well,
so it counts as two traversals u → u: the mirrored update terms both apply to u.

**Scores** of a walk w_0 → w_1 → … → w_l over events of times t_1 ≥ … ≥ t_l and batches b_1 > … > b_l:

- `decay`: Π_{i=1..l} exp(−λ (T − t_i)).
- `count`: 1.
- `transition`: Π_{i=0..l−1} exp(−α (t_i − t_{i+1})) / Σ_{e'} exp(−α (t_i − t')), where e' = (w_i → ·, t',
  b') runs over all traversals that leave w_i with b' < b_i; t_0 = T, and b_0 is after every batch. This is
  CAWN's score with "before t_i" read as "before the batch of the event that led to w_i". It equals the
  additive form

      S_u^(l) += w · S_v^(l−1) / D_v  (layer 0: P_v),  D_u += w,  w = exp(α t),  reading S_u^(l) / D_u

  with S_v, D_v as they were before the batch: unrolled, D_{w_i} is the sum of w over the traversals that
  leave w_i before b_i, and the factor exp(−α t_i) cancels in each fraction. Hence:

  * T drops out: the matrices do not change while nothing happens.
  * The last node of a walk has no denominator, so layer 1 asks nothing of v's history.
  * A node first met in batch b has D_v = 0, and S_v^(l−1) = 0 with it: the message 0/0 means 0 for layers ≥
    1. Enumeration needs no such rule: no walk goes on from v before b. Walks that get stuck lose their
    probability, so rows of layers ≥ 2 may sum to less than 1; those of layer 1 sum to 1 for every node with
    an event.
  * A self-loop adds 2w to D_u. (The CAWN propagation as printed runs its two lines one after the other with
    the old d_u: after d = 1 a self-loop gets 3/4 of the row. Two independent contributions, summed as the
    paper's batch mechanism has it, get 2/3; that is the additive form, and what is enumerated here.)

  Each fraction is taken on the clock of the newest event in its sum, which then weighs 1: no sum underflows,
  however long ago its events were.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Event = tuple[int, int, float]


@dataclass(frozen=True)
class Traversal:
    """One direction of one event."""

    origin: int
    target: int
    time: float
    batch: int


Steps = tuple[Traversal, ...]
Score = Callable[[Steps], float]


def walk_matrices(
    events: Sequence[Event],
    batches: Sequence[int],
    num_nodes: int,
    hops: int,
    walk: str,
    decay: float,
    at_time: float,
) -> list[npt.NDArray[np.float64]]:
    """A[l][u][v] for l = 0..hops, read at `at_time` (not before the last event), all events included.

    `batches` gives each event's batch index, non-decreasing; `decay` is λ or α and unused by `count`.
    """
    _check(events, batches, at_time)
    traversals = _both_directions(events, batches)
    score = _score_of(walk, traversals, decay, at_time)
    return [_matrix(traversals, num_nodes, length, score) for length in range(hops + 1)]


def timescale_matrices(
    events: Sequence[Event],
    batches: Sequence[int],
    num_nodes: int,
    hops: int,
    decays: Sequence[float],
    at_time: float,
) -> list[npt.NDArray[np.float64]]:
    """`decay` matrices of several λ, as rows hold them: A[0], then for each length those of every λ."""
    each = [walk_matrices(events, batches, num_nodes, hops, "decay", decay, at_time) for decay in decays]
    return [each[0][0], *(matrices[length] for length in range(1, hops + 1) for matrices in each)]


def batches_of(num_events: int, batch_size: int) -> list[int]:
    """Batch index of each event when every batch takes the next `batch_size` events."""
    return [position // batch_size for position in range(num_events)]


def batches_of_equal_times(events: Sequence[Event]) -> list[int]:
    """Batch index of each event when a batch is a group of equal times."""
    distinct = sorted({time for _, _, time in events})
    return [distinct.index(time) for _, _, time in events]


def _check(events: Sequence[Event], batches: Sequence[int], at_time: float) -> None:
    times = [time for _, _, time in events]
    assert len(batches) == len(events), f"{len(batches)} batch indices for {len(events)} events"
    assert times == sorted(times), "events must be in order of time"
    assert list(batches) == sorted(batches), "batch indices must not decrease"
    assert not times or at_time >= times[-1], f"read at {at_time}, before the last event at {times[-1]}"


def _both_directions(events: Sequence[Event], batches: Sequence[int]) -> list[Traversal]:
    there = [Traversal(u, v, time, batch) for (u, v, time), batch in zip(events, batches, strict=True)]
    back = [Traversal(step.target, step.origin, step.time, step.batch) for step in there]
    return there + back


def _matrix(
    traversals: list[Traversal], num_nodes: int, length: int, score: Score
) -> npt.NDArray[np.float64]:
    scores: list[list[list[float]]] = [[[] for _ in range(num_nodes)] for _ in range(num_nodes)]
    for start in range(num_nodes):
        for steps in _walks(traversals, start, length, before=math.inf):
            end = steps[-1].target if steps else start
            scores[start][end].append(score(steps))
    return np.array([[math.fsum(entry) for entry in row] for row in scores], dtype=np.float64)


def _walks(traversals: list[Traversal], node: int, length: int, before: float) -> Iterator[Steps]:
    """Every walk of `length` steps from `node` whose batches decrease strictly, from below `before`."""
    if length == 0:
        yield ()
        return
    for step in _leaving(traversals, node, before):
        for rest in _walks(traversals, step.target, length - 1, step.batch):
            yield (step, *rest)


def _leaving(traversals: list[Traversal], node: int, before: float) -> list[Traversal]:
    return [step for step in traversals if step.origin == node and step.batch < before]


def _score_of(walk: str, traversals: list[Traversal], decay: float, at_time: float) -> Score:
    def decay_score(steps: Steps) -> float:
        return math.exp(-decay * math.fsum(at_time - step.time for step in steps))

    def count_score(steps: Steps) -> float:
        return 1.0

    def transition_score(steps: Steps) -> float:
        borders = [math.inf, *(step.batch for step in steps)]
        return math.prod(
            _probability(step, _leaving(traversals, step.origin, border), decay)
            for step, border in zip(steps, borders, strict=False)
        )

    scores = {"decay": decay_score, "count": count_score, "transition": transition_score}
    if walk not in scores:
        raise ValueError(f"walk {walk!r} is unknown; choose one of {', '.join(scores)}")
    return scores[walk]


def _probability(step: Traversal, choices: list[Traversal], decay: float) -> float:
    newest = max(choice.time for choice in choices)
    weights = [math.exp(-decay * (newest - choice.time)) for choice in choices]
    return math.exp(-decay * (newest - step.time)) / math.fsum(weights)
