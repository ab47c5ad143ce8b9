"""Put fetched rows and planned links together: what the model is asked.

Shape letter: E edge features.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.batches.links import LinkBlock, PlannedLinks
from tpnet_dist.events.features import Features
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.models.link_batch import LinkBatch


@dataclass(frozen=True)
class DistinctNodes:
    """What stands in for fetched rows where there is no memory."""

    nodes_U: Tensor

    def position_of(self, nodes: Tensor) -> Tensor:
        return torch.searchsorted(self.nodes_U, nodes)


Rows = FetchedRows | DistinctNodes


def rows_ahead(
    memory: Memory | None, requests: Iterable[MemoryRequest[PlannedLinks]], *, prefetch: int
) -> Iterator[tuple[PlannedLinks, Rows]]:
    """Planned links with their rows, up to `prefetch` batches ahead of the model."""
    if memory is not None:
        return fetch_ahead(memory, requests, prefetch=prefetch)
    notes = ((request.note, DistinctNodes(torch.unique(request.note.nodes()))) for request in requests)
    return read_ahead(notes, prefetch, to_the_brim=True)


@dataclass(frozen=True)
class QueryMaker:
    """Moves a block's tensors to the model's device and reads rows at the links' times."""

    device: torch.device
    node_features: Features | None
    dtype: torch.dtype = torch.float32
    """Of the model's weights; so are the features that meet them."""

    def queries(
        self, planned: PlannedLinks, rows: Rows, dropout_keys_B: Tensor | None = None
    ) -> list[LinkBatch]:
        """One for each block."""
        features_UF = self._node_features(rows.nodes_U)
        keys_B = None if dropout_keys_B is None else _moved(dropout_keys_B, self.device)
        # events of further blocks drop otherwise than those of the first
        return [
            self._query(
                block, planned.read_time_B, rows, features_UF, None if keys_B is None else keys_B ^ number
            )
            for number, block in enumerate(planned.blocks)
        ]

    def _query(
        self,
        block: LinkBlock,
        read_time_B: Tensor,
        rows: Rows,
        features_UF: Tensor | None,
        keys_B: Tensor | None,
    ) -> LinkBatch:
        # without memory the nodes stay on the host, but not what the model indexes by
        where = rows.nodes_U.device
        ends_BS = _moved(rows.position_of(_moved(block.ends_BS, where)), self.device)
        neighbors_BSM = _moved(rows.position_of(_moved(block.neighbors_BSM, where)), self.device)
        edge_features = block.edge_features_BSME
        if edge_features is not None:
            edge_features = _moved(edge_features.to(self.dtype), self.device)
        means = block.neighbor_means_BSF
        if means is not None:
            means = _moved(means.to(self.dtype), self.device)
        query = LinkBatch(
            ends_BS=ends_BS,
            neighbors_BSM=neighbors_BSM,
            neighbor_mask_BSM=block.mask_BSM,
            elapsed_BSM=_moved(block.elapsed_BSM, self.device),
            node_features_UF=features_UF,
            edge_features_BSME=edge_features,
            neighbor_means_BSF=means,
            dropout_keys_B=keys_B,
        )
        return query if isinstance(rows, DistinctNodes) else _with_rows(query, rows, read_time_B)

    def _node_features(self, nodes_U: Tensor) -> Tensor | None:
        if self.node_features is None:
            return None
        # a padding node has no features of its own
        nodes_U = nodes_U.cpu()
        known_U = nodes_U.clamp(max=len(self.node_features) - 1)
        features_UF = torch.from_numpy(self.node_features[known_U.numpy()])
        features_UF.mul_((nodes_U == known_U)[:, None])
        return _moved(features_UF.to(self.dtype), self.device)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The host goes on while a GPU is busy: what is asked of it next is queued."""
    return tensor.to(device, non_blocking=True)


def _with_rows(query: LinkBatch, rows: FetchedRows, read_time_B: Tensor) -> LinkBatch:
    ends_BS, neighbors_BSM = query.ends_BS, query.neighbors_BSM
    time_B1 = _moved(read_time_B, ends_BS.device)[:, None]
    end_factors = rows.read_factors(ends_BS.flatten(), time_B1.expand_as(ends_BS).flatten())
    neighbor_factors = rows.read_factors(
        neighbors_BSM.flatten(), time_B1[:, :, None].expand_as(neighbors_BSM).flatten()
    )
    return LinkBatch(
        **{
            **vars(query),
            "rows_ULD": rows.stored.rows_ULD,
            "products_ULL": rows.stored.products_ULL,
            "end_factors_BSL": end_factors.view(*ends_BS.shape, end_factors.shape[1]),
            "neighbor_factors_BSML": neighbor_factors.view(*neighbors_BSM.shape, neighbor_factors.shape[1]),
        }
    )
