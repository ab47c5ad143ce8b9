"""Which nodes at which times TGAT embeds: the ends of links, then what stands in their slots, and so on.

What stands in many slots is embedded once: a level has the distinct rows of a hop that the level before it
refers to. That is decided on the host, which holds rows and masks.

T rows have M slots each.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.models.common.dropout import Dropout, dropout_for, row_dropout_for
from tpnet_dist.models.link_batch import Hop, LinkBatch


@dataclass(frozen=True)
class Level:
    """Nodes at times, with their interactions before that."""

    features_TF: Tensor | None
    """Node features; zero for the row of empty slots."""
    mask_TM: Tensor
    elapsed_TM: Tensor
    neighbor_features_TMF: Tensor | None
    """Node features of those in the slots; zero in empty ones."""
    edge_features_TMF: Tensor | None
    next_rows_TM: Tensor | None
    """The row of the next level that stands in each slot; None in the last."""
    dropout: Dropout


def levels_of(batch: LinkBatch, dropout: float, *, training: bool) -> Iterator[Level]:
    """Yield the ends first."""
    device = batch.ends_BS.device
    next_rows_TM, used_V = _used(batch.hop_rows_BSM)
    neighbors_BSM, edges = batch.neighbors_BSM, batch.edge_features_BSMF
    mask_TM = batch.neighbor_mask_BSM.flatten(0, 1).to(device, non_blocking=True)
    yield Level(
        features_TF=_features(batch, batch.ends_BS.flatten()),
        mask_TM=mask_TM,
        elapsed_TM=batch.elapsed_BSM.flatten(0, 1),
        neighbor_features_TMF=_features(batch, neighbors_BSM.flatten(0, 1), mask_TM),
        edge_features_TMF=None if edges is None else edges.flatten(0, 1),
        next_rows_TM=_on(device, next_rows_TM),
        dropout=dropout_for(batch, dropout, training=training, events_first=True),
    )
    for hop in batch.hops:
        assert used_V is not None, "rows of a hop are referred to by the hop before"
        next_rows_TM, next_used_V = _used(None if hop.rows_VM is None else hop.rows_VM[used_V])
        yield _level_of(batch, hop, used_V, _on(device, next_rows_TM), dropout, training=training)
        used_V = next_used_V


def _level_of(
    batch: LinkBatch, hop: Hop, used_V: Tensor, next_rows_TM: Tensor | None, dropout: float, *, training: bool
) -> Level:
    device = batch.ends_BS.device
    mask_TM = hop.mask_VM[used_V].to(device, non_blocking=True)
    somebody_T, row_T = (used_V > 0).to(device, non_blocking=True), used_V.to(device, non_blocking=True)
    edges, keys_V = hop.edge_features_VMF, hop.dropout_keys_V
    return Level(
        features_TF=_features(batch, hop.nodes_V[row_T], somebody_T),
        mask_TM=mask_TM,
        elapsed_TM=hop.elapsed_VM[row_T],
        neighbor_features_TMF=_features(batch, hop.neighbors_VM[row_T], mask_TM),
        edge_features_TMF=None if edges is None else edges[row_T],
        next_rows_TM=next_rows_TM,
        dropout=row_dropout_for(None if keys_V is None else keys_V[row_T], row_T, dropout, training=training),
    )


def _used(rows: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the rows that are referred to, and the references by place among them: (T, M), (V)."""
    if rows is None:
        return None, None
    used_V, place = torch.unique(rows, return_inverse=True)
    return place.view(-1, rows.shape[-1]), used_V


def _on(device: torch.device, rows: Tensor | None) -> Tensor | None:
    return None if rows is None else rows.to(device, non_blocking=True)


def _features(batch: LinkBatch, place: Tensor, mask: Tensor | None = None) -> Tensor | None:
    if batch.node_features_UF is None:
        return None
    features = batch.node_features_UF[place]
    return features if mask is None else features * mask[..., None]
