"""Where features come from — columns of the CSV, or `.npy` matrices beside it — and how they reach the
data folder in the final order of events and nodes."""

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.chunk import Chunk
from data_prep.raw_features import Blocks, FeatureReading
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import FeatureColumn, transform
from tpnet_dist.events.features import NODE_FEATURES_NAME, Features, FeatureWriter
from tpnet_dist.events.file_records import FeatureRecord
from tpnet_dist.files.npy_files import map_npy

Rows = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 1 << 16


class Matrix:
    """A `.npy` matrix of numbers, read by rows as float32.

    Mapped anew for every read: pages of a map that stays open count as this process's memory for good.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        shape = self._map().shape
        self.num_rows, self.width = int(shape[0]), int(shape[1])

    def rows(self, which: Rows | slice) -> Features:
        with np.errstate(over="ignore"):
            return self._map()[which].astype(np.float32)

    def check_finite(self) -> bool:
        """Refuse values that float32 cannot hold; say whether any is not zero."""
        has_values = False
        for first in range(0, self.num_rows, _ROWS_AT_ONCE):
            block = self.rows(slice(first, first + _ROWS_AT_ONCE))
            has_values |= bool(block.any())
            if not (finite := np.isfinite(block).all(axis=1)).all():
                row = first + int(np.argmin(finite))
                raise InputError(f"{self.path} row {row:,}: a feature is not finite in float32; correct it")
        return has_values

    def _map(self) -> npt.NDArray[np.float64]:
        try:
            matrix: npt.NDArray[np.float64] = map_npy(self.path, "r")
        except InputError as error:
            raise InputError(f"{error}; fetch it again") from error
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
            raise InputError(
                f"{self.path}: {matrix.dtype} of shape {matrix.shape}, but features are a matrix of numbers; "
                "give such a file or move it away"
            )
        return matrix


def load_matrix(path: Path) -> Matrix | None:
    """Map a matrix of features; `None` if all is zero, which is how DyGLib writes "no features"."""
    matrix = Matrix(path)
    return matrix if matrix.check_finite() else None


class EdgeFeatures(Protocol):
    """First pass: `take` a chunk's features, saying in which row each event's lie; then `settle`. Second
    pass: `place` them."""

    columns: tuple[FeatureColumn, ...]

    @property
    def names(self) -> list[str]: ...
    def settle(self) -> None: ...
    def raw_rows(self, rows: Rows) -> Features | None: ...
    def take(self, chunk: Chunk) -> Rows: ...
    def place(self, rows: Rows) -> None: ...
    def finish(self) -> FeatureRecord: ...


class ColumnFeatures:
    """Features as columns of the sources. Kept aside if their order or their values will change, else final
    at once."""

    def __init__(
        self, path: Path, names: list[str], reading: FeatureReading, *, will_be_reordered: bool
    ) -> None:
        self._final, self._names, self._reading = path, names, reading
        self._is_final = not will_be_reordered and reading.options.is_plain and not reading.known
        self._taken = FeatureWriter(
            path if self._is_final else path.with_name("raw_features.npy"), len(names)
        )
        self._placed: FeatureWriter | None = None
        self._unsorted: Matrix | None = None
        self.columns: tuple[FeatureColumn, ...] = ()
        """What is made of each column; none if values are as they were."""

    @property
    def names(self) -> list[str]:
        """The name of each value that an event has."""
        return [name for column in self.columns for name in column.names] or self._names

    def settle(self) -> None:
        """Find out, once all rows have been taken, what is made of them."""
        if self._is_final:
            return
        self._taken.close()
        raw = self._unsorted = Matrix(self._taken.path)
        if not self._reading.options.is_plain or self._reading.known:
            self.columns = self._reading.columns(self._names, Blocks(raw.rows, raw.num_rows))
        self._placed = FeatureWriter(self._final, len(self.names))

    def raw_rows(self, rows: Rows) -> Features | None:
        """Return the values as they were read; None if they are final already."""
        return None if self._unsorted is None else self._unsorted.rows(rows)

    def take(self, chunk: Chunk) -> Rows:
        assert chunk.features is not None
        first = self._taken.rows
        self._taken.append(chunk.features)
        return np.arange(first, self._taken.rows)

    def place(self, rows: Rows) -> None:
        if self._placed is None or self._unsorted is None:
            return
        values = self._unsorted.rows(rows)
        if self.columns:
            values = transform(self.columns, self._reading.renumber(values, self.columns))
        if not np.isfinite(values).all():
            raise InputError(
                "a feature is beyond float32 when it is put to one scale; leave --standardize away"
            )
        self._placed.append(values)

    def finish(self) -> FeatureRecord:
        writer = self._placed or self._taken
        writer.close()
        if self._unsorted is not None:
            self._unsorted.path.unlink()
        return writer.record()


class MatrixFeatures:
    """Features in a `.npy` matrix beside the CSV; a column of the CSV says which row is whose."""

    def __init__(self, path: Path, matrix: Matrix) -> None:
        self._matrix = matrix
        self._writer = FeatureWriter(path, matrix.width)
        self.columns: tuple[FeatureColumn, ...] = ()
        self.names: list[str] = []

    def settle(self) -> None:
        pass

    def raw_rows(self, rows: Rows) -> Features | None:
        return self._matrix.rows(rows)

    def take(self, chunk: Chunk) -> Rows:
        assert chunk.feature_row is not None
        return chunk.feature_row

    def place(self, rows: Rows) -> None:
        self._writer.append(self._matrix.rows(rows))

    def finish(self) -> FeatureRecord:
        self._writer.close()
        return self._writer.record()


def write_node_features(staging: Path, matrix: Matrix, raw_ids: pa.Array) -> FeatureRecord:
    """Reorder a matrix whose row is the raw id, as in DyGLib, to dense ids."""
    if raw_ids.type != pa.int64():
        raise InputError(
            f"{matrix.path}: node features are found by integer id, but the ids are text; move the file away"
        )
    ids = raw_ids.to_numpy()
    if ids.min() < 0 or ids.max() + 1 != matrix.num_rows:
        raise InputError(
            f"{matrix.path}: {matrix.num_rows:,} rows, but ids are {ids.min()} to {ids.max()}; "
            "use the file that fits"
        )
    with FeatureWriter(staging / NODE_FEATURES_NAME, matrix.width) as writer:
        for first in range(0, len(ids), _ROWS_AT_ONCE):
            writer.append(matrix.rows(ids[first : first + _ROWS_AT_ONCE]))
    return writer.record()
