"""Makes figures of scores: kind of negatives → metric."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.evaluation.metrics import LinkScores, ranking
from tpnet_dist.evaluation.results import ByKind
from tpnet_dist.events.batch_plan import Positions

Scores = npt.NDArray[np.floating]


def tabulate(
    kinds: Sequence[NegativeKind], scores_BX: Scores, borders: Positions, ranked_BX: Scores | None = None
) -> ByKind:
    """Compute metrics from one column of negatives for each kind; in `ranked` all columns compete with the
    event."""
    by_kind: ByKind = {
        kind: LinkScores(scores_BX[:, 0], scores_BX[:, column]).metrics(borders)
        for column, kind in enumerate(kinds, start=1)
    }
    if ranked_BX is not None:
        # competitors are random destinations
        by_kind.setdefault("random", {}).update(ranking(ranked_BX[:, 0], ranked_BX[:, 1:]))
    return by_kind
