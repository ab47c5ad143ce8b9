"""Metrics of scores for reports: AP and AUC by batch and whole, MRR and Hits by the rule of TGB."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError

Scores = npt.NDArray[np.floating]
Counts = npt.NDArray[np.float64]
HITS_AT = (1, 3, 10)


@dataclass(frozen=True, eq=False)
class LinkScores:
    """Holds the scores of B events and of one negative for each, in the order of the events."""

    positive_B: Scores
    negative_B: Scores

    def __post_init__(self) -> None:
        if self.positive_B.ndim != 1 or self.positive_B.shape != self.negative_B.shape:
            raise ValueError(
                f"scores of events are {self.positive_B.shape}, of negatives {self.negative_B.shape}; "
                "give one of each per event"
            )
        _require_numbers(self.positive_B, self.negative_B)

    def metrics(self, borders: npt.NDArray[np.int64]) -> dict[str, float]:
        """Return `ap` and `auc` as plain means over the batches between borders, the paper's figures; and
        whole.

        The last batch, though smaller, counts like the others, as in the published figures.
        """
        if not len(self.positive_B):
            return {}
        if borders[0] != 0 or borders[-1] != len(self.positive_B) or (np.diff(borders) <= 0).any():
            raise ValueError(
                f"borders {borders[0]}…{borders[-1]} do not cut {len(self.positive_B):,} events into "
                "batches; give those of the plan that was scored"
            )
        by_batch = [self._ap_and_auc(start, stop) for start, stop in pairwise(borders.tolist())]
        ap, auc = np.mean(by_batch, axis=0).tolist()
        ap_whole, auc_whole = self._ap_and_auc(0, len(self.positive_B))
        return {"ap": ap, "auc": auc, "ap_whole": ap_whole, "auc_whole": auc_whole}

    def _ap_and_auc(self, start: int, stop: int) -> tuple[float, float]:
        scores = np.concatenate([self.positive_B[start:stop], self.negative_B[start:stop]])
        is_event = np.repeat([True, False], stop - start)
        return average_precision(is_event, scores), area_under_roc(is_event, scores)


def average_precision(is_event: npt.NDArray[np.bool_], scores: Scores) -> float:
    """Return what scikit-learn's `average_precision_score` does, to the last bit; importing that takes as
    long as importing torch, and each call a hundred times longer than this."""
    hits, misses = _hits_and_misses(is_event, scores)
    precision, recall = hits / (hits + misses), hits / hits[-1]
    # from the lowest threshold on, as there: sums depend on their order
    recall_gained = np.diff(np.append(recall[::-1], 0.0))
    return float(max(0.0, -np.sum(recall_gained * precision[::-1])))


def area_under_roc(is_event: npt.NDArray[np.bool_], scores: Scores) -> float:
    """Return what scikit-learn's `roc_auc_score` does, to the last bit."""
    hits, misses = _hits_and_misses(is_event, scores)
    if len(hits) > 2:
        # points in the middle of a straight line are left out there: sums depend on that too
        is_corner = (np.diff(hits, 2) != 0) | (np.diff(misses, 2) != 0)
        kept = np.concatenate([[True], is_corner, [True]])
        hits, misses = hits[kept], misses[kept]
    hit_rate, miss_rate = (np.concatenate([[0.0], count]) / count[-1] for count in (hits, misses))
    return float(np.trapezoid(hit_rate, miss_rate))


def _hits_and_misses(is_event: npt.NDArray[np.bool_], scores: Scores) -> tuple[Counts, Counts]:
    """Count events and negatives that score at least each of the distinct scores, the highest first."""
    order = np.argsort(-scores, kind="stable")
    last_of_its_score = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(is_event[order], dtype=np.float64)[last_of_its_score]
    return hits, 1 + last_of_its_score - hits


def ranking(positive_B: Scores, negative_BC: Scores) -> dict[str, float]:
    """Return MRR and Hits of each event among its C negatives.

    A tie counts half: rank = 1 + mean of (negatives strictly better, negatives at least as good).
    """
    if negative_BC.ndim != 2 or positive_B.shape != negative_BC.shape[:1]:
        raise ValueError(
            f"scores of events are {positive_B.shape}, of negatives {negative_BC.shape}; "
            "give (B,) and (B, C), a row of negatives per event"
        )
    _require_numbers(positive_B, negative_BC)
    if not len(positive_B):
        return {}
    num_better_B = (negative_BC > positive_B[:, None]).sum(axis=1)
    num_as_good_B = (negative_BC >= positive_B[:, None]).sum(axis=1)
    rank_B = 1 + (num_better_B + num_as_good_B) / 2
    hits = {f"hits@{place}": float((rank_B <= place).mean()) for place in HITS_AT}
    return {"mrr": float((1 / rank_B).mean()), **hits}


def _require_numbers(positive: Scores, negative: Scores) -> None:
    for kind, scores in (("events", positive), ("negatives", negative)):
        if num_bad := int((~np.isfinite(scores)).sum()):
            raise InputError(
                f"{num_bad:,} of {scores.size:,} scores of {kind} are NaN or infinite, but must be finite: "
                "the model has diverged; lower training.learning_rate or set model.scale true"
            )
