"""EdgeBank's figures for the same events and negatives: what a link predictor must beat.

It sees every earlier event of the log, and nothing is learned. Cheap enough for every rank to do by itself.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tpnet_dist.batches.negatives import first_unseen
from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.evaluation.protocols import KIND_ORDER, Pass, Passes
from tpnet_dist.evaluation.results import Figures
from tpnet_dist.evaluation.scoring import EVALUATION_KEY
from tpnet_dist.evaluation.tables import Scores
from tpnet_dist.events.edge_history import NodeIds
from tpnet_dist.events.split import PartName
from tpnet_dist.events.view import EventView

Memory = Callable[[NodeIds, NodeIds, int], Scores]
"""Scores of edges, given the event of the log before which it may look back."""


def edge_bank_figures(passes: Passes, name: PartName, kinds: Sequence[NegativeKind]) -> dict[str, Figures]:
    """Return figures by EdgeBank's memory: all edges seen, or those of the latest time, as long as the test
    part's share of events."""
    kinds = [kind for kind in KIND_ORDER if kind in kinds]
    log, share = passes.data.log, passes.config.data.test_share
    bank = EdgeBank.of(EventView(log, 0, len(log)))
    memories: dict[str, Memory] = {
        "edgebank_unlimited": bank.unlimited,
        "edgebank_window": partial(bank.time_window, share=share),
    }
    figures: dict[str, Figures] = {name: {} for name in memories}
    for memory_name, memory in memories.items():
        for each in passes.over(name):
            figures[memory_name] |= each.figures(kinds, _scores(memory, each, kinds))
    return figures


def _scores(memory: Memory, each: Pass, kinds: Sequence[NegativeKind]) -> Scores:
    sources = each.universe.negatives(kinds, EVALUATION_KEY)
    of_batches = []
    for _, batch in each.view.batches(each.plan):
        src_B, dst_B = batch.columns.src, batch.columns.dst
        links = [(src_B, dst_B)]
        for source in sources:
            drawn = source.draw(batch, slice(None))
            links.append((src_B if drawn.src_B is None else drawn.src_B, drawn.dst_BC[:, 0]))
        before = first_unseen(batch, each.universe.before_moment)
        of_batches.append(np.stack([memory(*ends, before) for ends in links], axis=1))
    return np.concatenate(of_batches)
