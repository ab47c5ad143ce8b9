"""Put planned links and the rows that were read for them together: what the model is asked."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.distributed.packed_copy import Parcel, packed_ahead
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.models.common.dropout import with_dropout_states
from tpnet_dist.models.link_batch import LinkBatch

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
) -> Iterator[PlannedRows]:
    """Yield planned links with their rows, up to `prefetch` batches ahead of the model.

    `maker`: whoever makes batches of them; for a GPU it does ahead what it can.
    """
    device = torch.device("cpu") if maker is None else maker.device
    if maker is not None and device.type != "cpu":
        given, ready = maker, requests
        requests = (replace(each, note=given.prepared(each.note)) for each in ready)
    if memory is not None and memory.device == device:
        return fetch_ahead(memory, requests, prefetch=prefetch)
    batches: Iterable[PlannedRows] = ((request.note, None) for request in requests)
    if memory is not None:
        # rows of a host for a GPU: one thread reads, records and packs
        batches = fetch_ahead(memory, requests, prefetch=0)
    if device.type == "cpu":
        return read_ahead(batches, prefetch, fill_on_exit=True)
    return _arriving(packed_ahead(_parcels(batches, device), device, prefetch))


def _parcels(batches: Iterable[PlannedRows], device: torch.device) -> Iterator[Parcel]:
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
    prepare: Callable[[LinkBatch], object] | None = None
    """Computes ahead, for a GPU, what the model makes of a batch without its rows."""

    def microbatches(self, planned: PlannedLinks, rows: FetchedRows | None) -> list[Microbatch]:
        """Make this rank's slice, cut as on any number of ranks; some microbatches may be empty."""
        batches = self.make(planned, rows)
        return [[batch[events] for batch in batches] for events in planned.microbatches]

    def make(self, planned: PlannedLinks, rows: FetchedRows | None) -> list[LinkBatch]:
        """Make this rank's slice in one: a `LinkBatch` for each block."""
        if planned.read_time_B.device.type != self.device.type:
            [planned] = Parcel([self.prepared(planned)], self.device).arrive()
        if rows is None:
            return planned.batches()
        return [_with_rows(batch, rows, planned.read_time_B) for batch in planned.batches()]

    def prepared(self, planned: PlannedLinks) -> PlannedLinks:
        """Return these links with what the model can make of them on the host, before they are sent."""
        if self.device.type == "cpu":
            return planned
        planned = replace(planned, blocks=tuple(map(with_dropout_states, planned.blocks)))
        if self.prepare is None:
            return planned
        prepared = [self.prepare(batch) for batch in planned.batches()]
        pairs = zip(planned.blocks, prepared, strict=True)
        return replace(planned, blocks=tuple(replace(batch, prepared=each) for batch, each in pairs))


def _with_rows(batch: LinkBatch, rows: FetchedRows, read_time_B: Tensor) -> LinkBatch:
    ends_BS, neighbors_BSM = batch.ends_BS, batch.neighbors_BSM
    time_B1 = read_time_B[:, None]
    end_factors = rows.read_factors(ends_BS.flatten(), time_B1.expand_as(ends_BS).flatten())
    neighbor_factors = rows.read_factors(
        neighbors_BSM.flatten(), time_B1[:, :, None].expand_as(neighbors_BSM).flatten()
    )
    return replace(
        batch,
        rows_ULD=rows.rows_ULD,
        products_ULL=rows.products_ULL,
        end_factors_BSL=end_factors.view(*ends_BS.shape, end_factors.shape[1]),
        neighbor_factors_BSML=neighbor_factors.view(*neighbors_BSM.shape, neighbor_factors.shape[1]),
    )
