"""From scores to the figures of a report: setting → kind of negatives → metric.

Shape letters: N events, X links scored per event: itself, then its negatives.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.evaluation.metrics import LinkScores, ranking
from tpnet_dist.events.batch_plan import Positions

Scores = npt.NDArray[np.float32]
ByKind = dict[str, dict[str, float]]
Figures = dict[str, ByKind]


def tabulate(
    kinds: Sequence[NegativeKind], scores_NX: Scores, borders: Positions, ranked_NX: Scores | None = None
) -> ByKind:
    """One column of negatives for each kind; `ranked`: all columns compete with the event."""
    by_kind: ByKind = {
        kind: LinkScores(scores_NX[:, 0], scores_NX[:, column]).metrics(borders)
        for column, kind in enumerate(kinds, start=1)
    }
    if ranked_NX is not None:
        # competitors are random destinations
        by_kind.setdefault("random", {}).update(ranking(ranked_NX[:, 0], ranked_NX[:, 1:]))
    return by_kind


def mean_and_deviation(
    figures: Sequence[Mapping[str, object]],
) -> tuple[dict[str, object], dict[str, object]]:
    """Of several seeds' figures, nested alike, number by number."""
    mean: dict[str, object] = {}
    deviation: dict[str, object] = {}
    for name, first in figures[0].items():
        values = [each[name] for each in figures if name in each]
        if isinstance(first, Mapping):
            mean[name], deviation[name] = mean_and_deviation([v for v in values if isinstance(v, Mapping)])
        else:
            numbers = np.array(values, dtype=np.float64)
            mean[name] = float(numbers.mean())
            deviation[name] = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    return mean, deviation


def settings_and_kinds(figures: Figures) -> Iterator[tuple[str, str, dict[str, float]]]:
    for setting, by_kind in figures.items():
        for kind, metrics in by_kind.items():
            yield setting, kind, metrics
