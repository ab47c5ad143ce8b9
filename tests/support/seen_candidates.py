"""The edges that negatives of a batch are drawn from, in order of first appearance."""

import numpy as np

from tpnet_dist.events.edge_history import edge_ends
from tpnet_dist.events.negatives import NodeIds, SeenEdges
from tpnet_dist.events.view import SelectedEvents


def candidates_of(edges: SeenEdges, batch: SelectedEvents) -> tuple[NodeIds, NodeIds]:
    """Return their sources and destinations."""
    allowed = edges._allowed_during(int(batch.time_group[0]), int(batch.time_group[-1]))
    kept = np.setdiff1d(np.arange(allowed.num_seen), allowed.excluded_A)
    assert len(kept) == allowed.num_candidates
    return edge_ends(edges._keys_A[kept], edges._num_nodes)
