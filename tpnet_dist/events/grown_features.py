"""Features of the log's events, and of events that came after them."""

from typing import Protocol

import numpy as np

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.features import FeatureParts, Features
from tpnet_dist.files.growing_array import GrowingArray


class FeatureRows(Protocol):
    """Looks up rows by number: a matrix, or one that grows."""

    def __getitem__(self, rows: Positions, /) -> Features: ...


class GrownFeatures:
    """The first rows of a matrix on disk, then rows in memory."""

    def __init__(self, first: Features | FeatureParts, num_first: int) -> None:
        self._first, self._num_first = first, num_first
        self._later = GrowingArray(np.float32, self.width)

    @property
    def width(self) -> int:
        return int(self._first.shape[1])

    def append(self, rows: Features) -> None:
        self._later.append(rows)

    def __getitem__(self, rows: Positions, /) -> Features:
        is_later = rows >= self._num_first
        if not is_later.any():
            return self._first[rows]
        # empty slots ask for row 0, which need not exist
        found = np.zeros((*rows.shape, self.width), np.float32)
        is_there = rows < self._num_first + len(self._later)
        found[is_later & is_there] = self._later.values[rows[is_later & is_there] - self._num_first]
        found[~is_later] = self._first[rows[~is_later]]
        return found
