"""An array that grows at its end; what it holds is copied a few times in all, not at every growth."""

from typing import Any

import numpy as np
import numpy.typing as npt

_FIRST_ROOM = 1024


class GrowingArray:
    """Rows of one shape and type, added at the end."""

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        """`width`: the width of rows with several columns; None: rows are single numbers."""
        self._rows: npt.NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[Any]:
        """All rows, not a copy; of no use any more once rows were added."""
        return self._rows[: self._size]

    def append(self, rows: npt.NDArray[Any]) -> None:
        wanted = self._size + len(rows)
        if wanted > len(self._rows):
            room = np.empty((max(_FIRST_ROOM, 2 * wanted), *self._rows.shape[1:]), self._rows.dtype)
            room[: self._size] = self.values
            self._rows = room
        self._rows[self._size : wanted] = rows
        self._size = wanted
