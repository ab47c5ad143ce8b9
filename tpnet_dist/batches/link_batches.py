"""Put planned links and the rows that were read for them together: what the model is asked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.batches.links import LinkBlock, PlannedLinks
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.models.link_batch import LinkBatch

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
        self, planned: PlannedLinks, rows: FetchedRows | None, dropout_keys_B: Tensor | None = None
    ) -> list[Microbatch]:
        """Make this rank's slice, cut as on any number of ranks; some microbatches may be empty."""
        batches = self.make(planned, rows, dropout_keys_B)
        return [[batch[events] for batch in batches] for events in planned.microbatches]

    def make(
        self, planned: PlannedLinks, rows: FetchedRows | None, dropout_keys_B: Tensor | None = None
    ) -> list[LinkBatch]:
        """Make this rank's slice in one: a `LinkBatch` for each block."""
        features_UF = self._moved_features(planned.node_features_UF)
        keys_B = None if dropout_keys_B is None else self._moved(dropout_keys_B)
        batches = []
        for number, block in enumerate(planned.blocks):
            # events of further blocks drop otherwise than those of the first
            block_keys_B = None if keys_B is None else keys_B ^ number
            batch = self._batch(block, features_UF, block_keys_B)
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
            dropout_keys_B=keys_B,
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
