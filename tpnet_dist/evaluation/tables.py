"""From scores to figures: kind of negatives → metric.

Shape letters: N events, X links scored per event: itself, then its negatives.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.evaluation.metrics import LinkScores, ranking
from tpnet_dist.evaluation.results import ByKind
from tpnet_dist.events.batch_plan import Positions

Scores = npt.NDArray[np.float32]


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
