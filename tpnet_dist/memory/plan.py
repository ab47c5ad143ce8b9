"""What a timestamp batch asks of the memory and tells it, worked out before any row is touched.

Everything here is a function of ids and times, so a background thread may prepare it any number of batches
ahead. Shape letters: B events of the batch, E messages (two per event), V nodes of the whole batch,
U nodes this rank needs, R nodes this rank sends messages for.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.errors import InputError
from tpnet_dist.ranks.blocks import Blocks, even_borders


@dataclass(frozen=True)
class BatchEvents:
    """A whole timestamp batch: every rank holds all of it, and scores its slice."""

    src_B: Tensor
    dst_B: Tensor
    time_B: Tensor
    """Seconds since the log's first event: float64, at least 0, not decreasing."""

    def __len__(self) -> int:
        return len(self.src_B)

    def check(self, num_nodes: int, not_before: float) -> None:
        """Refuse what would corrupt the memory, before any collective."""
        check_nodes(self.src_B, num_nodes, "source")
        check_nodes(self.dst_B, num_nodes, "destination")
        before_B = torch.cat([self.time_B.new_full((1,), not_before), self.time_B[:-1]])
        if not self.time_B.isfinite().all():
            raise InputError(
                "a time of the batch is NaN or infinite; convert the log again, which refuses such"
            )
        if (self.time_B < before_B).any():
            row = int((self.time_B < before_B).nonzero()[0])
            raise InputError(
                f"event {row} of the batch: time {float(self.time_B[row])} is before {float(before_B[row])}, "
                "which is recorded already; feed batches in time order, or reset the memory first"
            )

    def slice_of(self, rank: int, num_ranks: int) -> "BatchEvents":
        first, stop = even_borders(len(self), num_ranks)[rank : rank + 2]
        return BatchEvents(self.src_B[first:stop], self.dst_B[first:stop], self.time_B[first:stop])

    def messages(self) -> tuple[Tensor, Tensor, Tensor]:
        """To whom, from whom, when: both mirrored terms of every event."""
        to_E, from_E = torch.cat([self.src_B, self.dst_B]), torch.cat([self.dst_B, self.src_B])
        return to_E, from_E, self.time_B.repeat(2)


def check_nodes(ids: Tensor, num_nodes: int, role: str) -> None:
    """Refuse ids that own no row."""
    wrong = (ids < 0) | (ids >= num_nodes)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"event {row} of the batch: {role} id {int(ids[row])} is not within 0…{num_nodes - 1}; "
            "use the data folder the memory was made for"
        )


@dataclass(frozen=True)
class Touched:
    """The nodes of a batch and the clocks their rows will have after it."""

    nodes_V: Tensor
    clock_V: Tensor

    @classmethod
    def by(cls, events: BatchEvents) -> "Touched":
        to_E, _, time_E = events.messages()
        nodes_V, inverse_E = torch.unique(to_E, return_inverse=True)
        clock_V = time_E.new_zeros(len(nodes_V)).scatter_reduce_(
            0, inverse_E, time_E, "amax", include_self=False
        )
        return cls(nodes_V, clock_V)

    def within(self, first: int, stop: int) -> "Touched":
        """Only the nodes first … stop-1."""
        borders = torch.tensor([first, stop], device=self.nodes_V.device)
        low, high = torch.searchsorted(self.nodes_V, borders).tolist()
        return Touched(self.nodes_V[low:high], self.clock_V[low:high])

    def clock_of(self, nodes: Tensor) -> Tensor:
        return self.clock_V[torch.searchsorted(self.nodes_V, nodes)]


@dataclass(frozen=True)
class OutgoingMessages:
    """This rank's messages, ready to be summed: one bag per receiver and layer, receivers in order.

    Bag (r, l) holds row l of every sender to r. In `table_index` and its weights bags lie one after another,
    a receiver's k bags together, so the sums come out as one contiguous row per receiver.
    """

    nodes_R: Tensor
    """Receivers, sorted, so grouped by owner."""
    count_R: Tensor
    """How many messages each gets."""
    sender_E: Tensor
    """Positions of the senders among the fetched nodes, receiver after receiver."""
    age_E: Tensor
    """How long before the receiver's new clock the event was."""
    clock_E: Tensor
    """The receiver's new clock."""
    slot_Ek: Tensor
    """Where each message's layers lie in `table_index`."""
    table_index: Tensor
    """Rows of the fetched rows seen as a flat (U·L, D) table."""
    bag_starts: Tensor

    @classmethod
    def of(cls, slice_: BatchEvents, touched: Touched, fetched_U: Tensor, hops: int) -> "OutgoingMessages":
        to_E, from_E, time_E = slice_.messages()
        order_E = torch.argsort(to_E, stable=True)
        to_E, from_E, time_E = to_E[order_E], from_E[order_E], time_E[order_E]
        nodes_R, bag_E, count_R = torch.unique_consecutive(to_E, return_inverse=True, return_counts=True)
        start_R = count_R.cumsum(0) - count_R
        layer_k = torch.arange(hops, device=to_E.device)
        place_E = torch.arange(len(to_E), device=to_E.device) - start_R[bag_E]
        bag_starts_Rk = start_R[:, None] * hops + count_R[:, None] * layer_k
        slot_Ek = bag_starts_Rk[bag_E] + place_E[:, None]
        sender_E = torch.searchsorted(fetched_U, from_E)
        table_index = torch.empty_like(slot_Ek.view(-1))
        table_index[slot_Ek] = sender_E[:, None] * (hops + 1) + layer_k
        clock_E = touched.clock_of(to_E)
        return cls(
            nodes_R=nodes_R,
            count_R=count_R,
            sender_E=sender_E,
            age_E=clock_E - time_E,
            clock_E=clock_E,
            slot_Ek=slot_Ek,
            table_index=table_index,
            bag_starts=bag_starts_Rk.view(-1),
        )


def nodes_sent_by_each(events: BatchEvents, blocks: Blocks, rank: int) -> tuple[list[int], Tensor]:
    """For which of `rank`'s nodes each rank sends messages: counts by sender, and the nodes in that order.

    Everybody knows every slice, so nobody needs to announce what he sends.
    """
    first, stop = blocks.range_of(rank)
    parts = []
    for sender in range(blocks.num_ranks):
        slice_ = events.slice_of(sender, blocks.num_ranks)
        nodes = torch.cat([slice_.src_B, slice_.dst_B])
        parts.append(torch.unique(nodes[(nodes >= first) & (nodes < stop)]))
    return [len(part) for part in parts], torch.cat(parts)
