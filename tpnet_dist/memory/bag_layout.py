"""Where the terms of bags lie, for the bags of a run of batches at once.

A receiver's terms lie together: all for layer 1, its own row among them, then all for layer 2, and so on.

Shape letters: W receivers, M messages (or sums) to them, O those whose own row is a term, X terms, k hops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.memory.plan import Integers

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class BagLayout:
    """Of receivers in the order of their bags."""

    hops: int
    start_W: Integers
    """Where a receiver's terms begin; one more entry says where all end."""
    count_W: Integers
    """How many terms it has for each layer."""
    slot_M: Integers
    """Where messages lie for layer 1; for each further layer they lie `count` places on."""
    slot_O: Integers
    """Likewise own rows."""
    count_M: Integers
    count_O: Integers

    @classmethod
    def of(
        cls, to_M: Integers, own_O: Integers, num_receivers: int, hops: int, own_after: int | None = None
    ) -> "BagLayout":
        """`to_M`: the receivers of messages, and those of one receiver in the order they are added in;
        `own_O`: the receivers whose own rows are terms, after so many messages, or after all."""
        messages_W = np.bincount(to_M, minlength=num_receivers)
        count_W = messages_W.copy()
        count_W[own_O] += 1
        start_W = np.append(0, hops * count_W.cumsum())
        # messages need not come in the order of their receivers, but those of one come together
        first_M = np.flatnonzero(np.append(True, to_M[1:] != to_M[:-1])) if len(to_M) else to_M
        number_M = np.arange(len(to_M)) - first_M.repeat(messages_W[to_M[first_M]])
        before_O = messages_W[own_O]
        if own_after is not None:
            number_M += number_M >= own_after
            before_O = np.full_like(own_O, own_after)
        return cls(
            hops,
            start_W,
            count_W,
            slot_M=start_W[to_M] + number_M,
            slot_O=start_W[own_O] + before_O,
            count_M=count_W[to_M],
            count_O=count_W[own_O],
        )

    def fill(
        self, of_messages: Sequence[Column | int], of_own: Sequence[Column], dtype: npt.DTypeLike
    ) -> Column:
        """A column of all terms, from what messages and own rows have for each layer."""
        column_X = np.empty(self.start_W[-1], dtype)
        slot_M, slot_O = self.slot_M, self.slot_O
        for message, own in zip(of_messages, of_own, strict=True):
            column_X[slot_M], column_X[slot_O] = message, own
            slot_M, slot_O = slot_M + self.count_M, slot_O + self.count_O
        return column_X

    def bag_starts(self) -> Integers:
        """(W, k)."""
        starts, count = self.start_W[:-1], self.count_W
        return np.stack([starts + layer * count for layer in range(self.hops)], axis=1)
