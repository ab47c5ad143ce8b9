"""Who owns which row, and who scores which event: pure arithmetic."""

from dataclasses import dataclass

from torch import Tensor

from tpnet_dist.errors import InputError


@dataclass(frozen=True)
class Blocks:
    """Rows in contiguous blocks, laid out as DTensor's `Shard(0)`: all full but the last, some perhaps empty.

    5 rows on 4 ranks: 0 1 | 2 3 | 4 | (none)
    """

    num_rows: int
    num_ranks: int

    @property
    def rows_per_rank(self) -> int:
        return max(1, -(-self.num_rows // self.num_ranks))

    def range_of(self, rank: int) -> tuple[int, int]:
        first = min(rank * self.rows_per_rank, self.num_rows)
        return first, min(first + self.rows_per_rank, self.num_rows)

    @property
    def borders(self) -> list[int]:
        """Return where each rank's rows begin, and where the last rank's end."""
        return [min(rank * self.rows_per_rank, self.num_rows) for rank in range(self.num_ranks + 1)]

    def owner_of(self, rows: Tensor) -> Tensor:
        return rows // self.rows_per_rank

    def counts_by_owner(self, sorted_rows: Tensor) -> list[int]:
        """Return how many of the rows, which must be sorted, each rank owns."""
        owners = self.owner_of(sorted_rows)
        return owners.bincount(minlength=self.num_ranks).tolist()


def even_borders(count: int, num_ranks: int) -> list[int]:
    """Cut `count` items into contiguous slices, one per rank, whose sizes differ by at most one."""
    return [rank * count // num_ranks for rank in range(num_ranks + 1)]


def check_nodes(ids: Tensor, num_nodes: int, what: str) -> None:
    """Refuse ids that own no row; `what` names one, with `{row}` for its place."""
    wrong = (ids < 0) | (ids >= num_nodes)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"{what.format(row=row)} {int(ids[row])} is not within 0…{num_nodes - 1}; "
            "use the data folder the memory was made for"
        )
