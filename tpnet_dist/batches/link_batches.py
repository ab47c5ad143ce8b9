"""Put planned links and the rows that were read for them together: what the model is asked."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpnet_dist.batches.links import LinkBlock, PlannedLinks, PreparedLinks
from tpnet_dist.distributed.packed_copy import Parcel
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import Hop, LinkBatch, Prepared

PlannedRows = tuple[PlannedLinks, FetchedRows | None]
"""Links of a batch with their rows; the rows are None without a memory."""
Microbatch = list[LinkBatch]
"""The links that are scored at once: one batch for each block of links."""


def rows_ahead(
    memory: Memory | None,
    requests: Iterable[MemoryRequest[PlannedLinks]],
    *,
    prefetch: int,
    maker: "LinkBatchMaker | None" = None,
    dropout: SampleKey | None = None,
) -> Iterator[PlannedRows]:
    """Yield planned links with their rows, up to `prefetch` batches ahead of the model.

    `maker`: whoever makes batches of them; for a GPU it does ahead what it can, with the `dropout` it will be
    given.
    """
    device = torch.device("cpu") if maker is None else maker.device
    if maker is not None and device.type != "cpu":
        given, ready = maker, requests
        requests = (replace(each, note=given.prepared(each.note, dropout)) for each in ready)
    if memory is not None and memory.device == device:
        return fetch_ahead(memory, requests, prefetch=prefetch)
    batches: Iterable[PlannedRows] = ((request.note, None) for request in requests)
    if memory is not None:
        # rows of a host for a GPU: one thread reads, records and packs
        batches = fetch_ahead(memory, requests, prefetch=0)
    if device.type == "cpu":
        return read_ahead(batches, prefetch, fill_on_exit=True)
    return _arriving(read_ahead(_parcels(batches, device), prefetch, fill_on_exit=True))


def _parcels(batches: Iterable[PlannedRows], device: torch.device) -> Iterator[Parcel]:
    # a thread that pins memory has a context, on the first GPU unless it says otherwise
    torch.cuda.set_device(device)
    for batch in batches:
        yield Parcel([part for part in batch if part is not None], device)


def _arriving(parcels: Iterator[Parcel]) -> Iterator[PlannedRows]:
    with closing(parcels):  # type: ignore[type-var]
        for parcel in parcels:
            planned, *rows = parcel.arrive()
            yield planned, rows[0] if rows else None


@dataclass(frozen=True)
class LinkBatchMaker:
    """Moves planned links to the model's device and reads rows at the links' times."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    """The type of the model's weights, and of the features that meet them."""
    prepare: Callable[[LinkBatch], Prepared] | None = None
    """Computes ahead, for a GPU, what the model makes of a batch without its rows."""

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
        if planned.prepared is None:
            [planned] = Parcel([self.prepared(planned, dropout)], self.device).arrive()
        links = planned.prepared
        assert links is not None and links.dropout == dropout, (links, dropout)
        if rows is None:
            return links.batches
        return [self._with_rows(batch, rows, links.read_time_B) for batch in links.batches]

    def prepared(self, planned: PlannedLinks, dropout: SampleKey | None) -> PlannedLinks:
        """Return these links with all that needs no row prepared on the host."""
        features_UF = self._features(planned.node_features_UF)
        keys_B = None if dropout is None else event_keys(*dropout, planned.events_B)
        hops = tuple(self._hop(hop, dropout) for hop in planned.hops)
        batches = []
        for number, block in enumerate(planned.blocks):
            # events of further blocks drop otherwise than those of the first
            block_keys_B = None if keys_B is None else keys_B ^ number
            batch = replace(self._batch(block, features_UF, block_keys_B), hops=hops)
            if self.prepare is not None and self.device.type != "cpu":
                batch = replace(batch, prepared=self.prepare(batch))
            batches.append(batch)
        return replace(planned, prepared=PreparedLinks(batches, planned.read_time_B, dropout))

    def _batch(self, block: LinkBlock, features_UF: Tensor | None, keys_B: Tensor | None) -> LinkBatch:
        return LinkBatch(
            ends_BS=block.ends_BS,
            neighbors_BSM=block.neighbors_BSM,
            neighbor_mask_BSM=block.mask_BSM,
            elapsed_BSM=block.elapsed_BSM,
            node_features_UF=features_UF,
            edge_features_BSMF=self._features(block.edge_features_BSMF),
            neighbor_means_BSF=self._features(block.neighbor_means_BSF),
            longest_BS=block.longest_BS,
            own_elapsed_B=block.own_elapsed_B,
            repeats_BSM=block.repeats_BSM,
            hop_rows_BSM=block.hop_rows_BSM,
            dropout_keys_B=keys_B,
        )

    def _hop(self, hop: Hop, dropout: SampleKey | None) -> Hop:
        assert hop.dropout_keys_V is not None, "rows are told apart by their keys"
        keys_V = None if dropout is None else event_keys(*dropout, hop.dropout_keys_V)
        return replace(hop, edge_features_VMF=self._features(hop.edge_features_VMF), dropout_keys_V=keys_V)

    def _with_rows(self, batch: LinkBatch, rows: FetchedRows, read_time_B: Tensor) -> LinkBatch:
        ends_BS, neighbors_BSM = batch.ends_BS, batch.neighbors_BSM
        time_B1 = read_time_B[:, None]
        end_factors = rows.read_factors(ends_BS.flatten(), time_B1.expand_as(ends_BS).flatten())
        neighbor_factors = rows.read_factors(
            neighbors_BSM.flatten(), time_B1[:, :, None].expand_as(neighbors_BSM).flatten()
        )
        return LinkBatch(
            **{
                **vars(batch),
                "rows_ULD": rows.rows_ULD,
                "products_ULL": rows.products_ULL,
                "end_factors_BSL": end_factors.view(*ends_BS.shape, end_factors.shape[1]),
                "neighbor_factors_BSML": neighbor_factors.view(
                    *neighbors_BSM.shape, neighbor_factors.shape[1]
                ),
            }
        )

    def _features(self, features: Tensor | None) -> Tensor | None:
        return None if features is None else features.to(self.dtype)
