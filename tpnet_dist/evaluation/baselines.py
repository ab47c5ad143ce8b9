"""Figures of EdgeBank and of heuristics for the same events and negatives: what a model must beat.

They see every earlier event but those that training leaves out, and nothing is learned. Cheap enough for
every rank to do by itself.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tpnet_dist.batches.negatives import first_unseen
from tpnet_dist.config.schema import Baseline, NegativeKind
from tpnet_dist.evaluation.destinations import Destinations
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.evaluation.protocols import KIND_ORDER, Pass, Passes
from tpnet_dist.evaluation.results import Figures
from tpnet_dist.evaluation.scoring import EVALUATION_KEY
from tpnet_dist.evaluation.tables import Scores
from tpnet_dist.events.edge_history import NodeIds
from tpnet_dist.events.split import PartName

BEST_EDGE_BANK = "edgebank_best"

Heuristic = Callable[[NodeIds, NodeIds, int], npt.NDArray[np.floating]]
"""Scores of edges, given the event of the log before which it may look back."""


def baseline_figures(passes: Passes, name: PartName, kinds: Sequence[NegativeKind]) -> dict[str, Figures]:
    """Return figures by baseline, of those that `evaluation.baseline` asks for."""
    kinds = [kind for kind in KIND_ORDER if kind in kinds]
    heuristics = _heuristics(passes, passes.config.evaluation.baseline)
    figures: dict[str, Figures] = {heuristic: {} for heuristic in heuristics}
    for heuristic, score in heuristics.items():
        for each in passes.over(name):
            figures[heuristic] |= each.figures(kinds, _scores(score, each, kinds))
    banks = [figures[heuristic] for heuristic in heuristics if heuristic.startswith("edgebank")]
    return {**figures, BEST_EDGE_BANK: best_of(banks)} if banks else figures


def best_of(figures: Sequence[Figures]) -> Figures:
    """Return for each setting and kind of negatives the figures with the highest AP, as the paper shows
    EdgeBank; it is chosen on the very events it is a figure of."""
    first, *_ = figures
    return {
        setting: {
            kind: max((each[setting][kind] for each in figures), key=lambda metrics: metrics.get("ap", 0.0))
            for kind in by_kind
        }
        for setting, by_kind in first.items()
    }


def _heuristics(passes: Passes, asked: Baseline) -> dict[str, Heuristic]:
    split, share = passes.data.split, passes.config.data.test_share
    # as in DyGLib, training events of nodes that are kept out of training are not known
    views = (split.train, split.val, split.test)
    heuristics: dict[str, Heuristic] = {}
    if asked in ("edgebank", "all"):
        bank = EdgeBank.of(*views)
        heuristics |= {
            "edgebank_unlimited": bank.unlimited,
            "edgebank_window": partial(bank.time_window, share=share),
            "edgebank_repeat_interval": bank.repeat_interval,
            "edgebank_repeat_threshold": bank.repeat_threshold,
        }
    if asked in ("destinations", "all"):
        destinations = Destinations.of(*views)
        heuristics |= {"recency": destinations.recency, "popularity": destinations.popularity}
    return heuristics


def _scores(heuristic: Heuristic, each: Pass, kinds: Sequence[NegativeKind]) -> Scores:
    sources = each.universe.negatives(kinds, EVALUATION_KEY)
    of_batches = []
    for _, batch in each.view.batches(each.plan):
        src_B, dst_B = batch.columns.src, batch.columns.dst
        links = [(src_B, dst_B)]
        for source in sources:
            drawn = source.draw(batch, slice(None))
            links.append((src_B if drawn.src_B is None else drawn.src_B, drawn.dst_BC[:, 0]))
        before = first_unseen(batch, each.universe.before_time_group)
        of_batches.append(np.stack([heuristic(*ends, before) for ends in links], axis=1))
    return np.concatenate(of_batches)
