"""Links whose neighbours are not looked up yet, and what a whole batch of them must know beforehand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpnet_dist.events.view import SelectedEvents
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.run_length import MOST_BATCHES, in_runs
from tpnet_dist.neighbors.index import NeighborLookup
from tpnet_dist.neighbors.samplers import Queries, together

FURTHER = 4
"""Added to the number of a block's queries for draws of further neighbours."""
_MAX_ENDS = 1 << 20


@dataclass(frozen=True)
class Draft:
    """Holds links of a slice, or of a piece of one."""

    mine: SelectedEvents
    read_time_B: Tensor
    ends: list[Tensor]
    """The ends of each block: (B, S)."""
    microbatches: tuple[slice, ...]
    recorded: BatchEvents
    longest: tuple[Tensor, ...] | None = None
    """Of each block, for each of its S ends the longest history in the whole batch; where it is asked for."""

    def queries(self) -> Iterator[Queries]:
        """Yield the queries of each block."""
        for number, ends_BS in enumerate(self.ends):
            num_ends = ends_BS.shape[1]
            assert num_ends <= _MAX_ENDS // 8 and number < FURTHER, (num_ends, number)
            query_BS = (
                torch.from_numpy(self.mine.index)[:, None] * _MAX_ENDS + torch.arange(num_ends) * 8 + number
            )
            before_Q = torch.from_numpy(self.mine.time_group).repeat_interleave(num_ends)
            yield Queries(ends_BS.flatten(), before_Q, query_BS.flatten())

    def all_alike(self, longest: int) -> "Draft":
        """The same with one longest history for all."""
        return replace(self, longest=tuple(torch.full((ends_BS.shape[1],), longest) for ends_BS in self.ends))


def with_longest_histories(
    batches: Iterable[Iterable[Draft]], neighbors: NeighborLookup, most: int
) -> Iterator[list[Draft]]:
    """Tell the pieces of each batch the longest histories of the whole batch, up to `most`.

    Ranks meet once for a run of batches: owners of nodes get to know who is asked about in which place of
    which batch, and tell all ranks one number for each.
    """
    listed = (list(pieces) for pieces in batches)
    for run in in_runs(listed, lambda: MOST_BATCHES, lambda pieces: len(pieces[-1].recorded)):
        longest = _longest_histories(run, neighbors, most)
        for pieces, of_batch in zip(run, longest, strict=True):
            yield [replace(piece, longest=of_batch) for piece in pieces]


def _longest_histories(
    batches: Sequence[Sequence[Draft]], neighbors: NeighborLookup, most: int
) -> list[tuple[Tensor, ...]]:
    """Return the longest histories for each block of each batch: (S)."""
    queries, groups, widths = [], [], list[int]()
    for pieces in batches:
        first = sum(widths)
        of_blocks = [ends_BS.shape[1] for ends_BS in pieces[0].ends]
        for piece in pieces:
            group = first
            for ends_BS, query in zip(piece.ends, piece.queries(), strict=True):
                # nothing is drawn, so no number travels
                queries.append(replace(query, number_B=None))
                groups.append(torch.arange(group, group + ends_BS.shape[1]).repeat(len(ends_BS)))
                group += ends_BS.shape[1]
        widths += of_blocks
    found = neighbors.longest(together(queries), torch.cat(groups), sum(widths)).clamp_(max=most)
    of_block = iter(found.split_with_sizes(widths))
    return [tuple(next(of_block) for _ in pieces[0].ends) for pieces in batches]
