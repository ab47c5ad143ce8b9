"""Put planned links and the rows that were read for them together: what the model is asked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpnet_dist.batches.links import LinkBlock, PlannedLinks
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import Hop, LinkBatch

PlannedRows = tuple[PlannedLinks, FetchedRows | None]
"""Links of a batch with their rows; the rows are None without a memory."""
Microbatch = list[LinkBatch]
"""What is scored at once; one for each block of links."""


def rows_ahead(
    memory: Memory | None, requests: Iterable[MemoryRequest[PlannedLinks]], *, prefetch: int
) -> Iterator[PlannedRows]:
    """Yield planned links with their rows, up to `prefetch` batches ahead of the model."""
    if memory is not None:
        return fetch_ahead(memory, requests, prefetch=prefetch)
    return read_ahead(((request.note, None) for request in requests), prefetch, to_the_brim=True)


@dataclass(frozen=True)
class LinkBatchMaker:
    """Moves planned links to the model's device and reads rows at the links' times."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    """The type of the model's weights, and of the features that meet them."""

    def microbatches(
        self, planned: PlannedLinks, rows: FetchedRows | None, dropout: SampleKey | None = None
    ) -> list[Microbatch]:
        """Make this rank's slice, cut as on any number of ranks; some microbatches may be empty."""
        batches = self.make(planned, rows, dropout)
        return [[batch[events] for batch in batches] for events in planned.microbatches]

    def make(
        self, planned: PlannedLinks, rows: FetchedRows | None, dropout: SampleKey | None = None
    ) -> list[LinkBatch]:
        """Make this rank's slice in one: a `LinkBatch` for each block. `dropout`: the seed and epoch by whose
        draws values are dropped; none are without."""
        features_UF = self._moved_features(planned.node_features_UF)
        keys_B = None if dropout is None else self._moved(event_keys(*dropout, planned.events_B))
        hops = tuple(self._hop(hop, dropout) for hop in planned.hops)
        batches = []
        for number, block in enumerate(planned.blocks):
            # events of further blocks drop otherwise than those of the first
            block_keys_B = None if keys_B is None else keys_B ^ number
            batch = replace(self._batch(block, features_UF, block_keys_B), hops=hops)
            batches.append(batch if rows is None else self._with_rows(batch, rows, planned.read_time_B))
        return batches

    def _batch(self, block: LinkBlock, features_UF: Tensor | None, keys_B: Tensor | None) -> LinkBatch:
        return LinkBatch(
            ends_BS=self._moved(block.ends_BS),
            neighbors_BSM=self._moved(block.neighbors_BSM),
            neighbor_mask_BSM=block.mask_BSM,
            elapsed_BSM=self._moved(block.elapsed_BSM),
            node_features_UF=features_UF,
            edge_features_BSMF=self._moved_features(block.edge_features_BSMF),
            neighbor_means_BSF=self._moved_features(block.neighbor_means_BSF),
            repeats_BSM=block.repeats_BSM,
            hop_rows_BSM=block.hop_rows_BSM,
            dropout_keys_B=keys_B,
        )

    def _hop(self, hop: Hop, dropout: SampleKey | None) -> Hop:
        assert hop.dropout_keys_V is not None, "rows are told apart by their keys"
        keys_V = None if dropout is None else self._moved(event_keys(*dropout, hop.dropout_keys_V))
        return replace(
            hop,
            nodes_V=self._moved(hop.nodes_V),
            neighbors_VM=self._moved(hop.neighbors_VM),
            elapsed_VM=self._moved(hop.elapsed_VM),
            edge_features_VMF=self._moved_features(hop.edge_features_VMF),
            dropout_keys_V=keys_V,
        )

    def _with_rows(self, batch: LinkBatch, rows: FetchedRows, read_time_B: Tensor) -> LinkBatch:
        ends_BS, neighbors_BSM = batch.ends_BS, batch.neighbors_BSM
        time_B1 = self._moved(read_time_B)[:, None]
        end_factors = rows.read_factors(ends_BS.flatten(), time_B1.expand_as(ends_BS).flatten())
        neighbor_factors = rows.read_factors(
            neighbors_BSM.flatten(), time_B1[:, :, None].expand_as(neighbors_BSM).flatten()
        )
        return LinkBatch(
            **{
                **vars(batch),
                "rows_ULD": rows.stored.rows_ULD,
                "products_ULL": rows.stored.products_ULL,
                "end_factors_BSL": end_factors.view(*ends_BS.shape, end_factors.shape[1]),
                "neighbor_factors_BSML": neighbor_factors.view(
                    *neighbors_BSM.shape, neighbor_factors.shape[1]
                ),
            }
        )

    def _moved_features(self, features: Tensor | None) -> Tensor | None:
        return None if features is None else self._moved(features.to(self.dtype))

    def _moved(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the device without waiting: the host goes on while a GPU is busy."""
        return tensor.to(self.device, non_blocking=True)
