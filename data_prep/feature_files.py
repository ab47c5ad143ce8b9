"""Where features come from — columns of the CSV, or `.npy` matrices beside it — and how they reach the
data folder in the final order of events and nodes."""

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.csv_stream import Chunk
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import EDGE_FEATURES_NAME, NODE_FEATURES_NAME, Features, FeatureWriter
from tpnet_dist.events.manifest import FeatureRecord

Rows = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 1 << 16


class EdgeFeatures(Protocol):
    """First pass: `take` a chunk's features, saying in which row each event's lie. Second: `place` them."""

    def take(self, chunk: Chunk) -> Rows: ...
    def place(self, rows: Rows) -> None: ...
    def finish(self) -> FeatureRecord: ...


class ColumnFeatures:
    """Features as columns of the CSV whose order of events is final: written once, while reading."""

    def __init__(self, staging: Path, width: int) -> None:
        self._writer = FeatureWriter(staging / EDGE_FEATURES_NAME, width)

    def take(self, chunk: Chunk) -> Rows:
        assert chunk.features is not None
        first = self._writer.rows
        self._writer.append(chunk.features)
        return np.arange(first, self._writer.rows)

    def place(self, rows: Rows) -> None:
        """Already in place."""

    def finish(self) -> FeatureRecord:
        self._writer.close()
        return self._writer.record()


class SortedColumnFeatures:
    """Features as columns of a CSV that is being sorted: kept aside, then gathered in the final order."""

    def __init__(self, staging: Path, width: int) -> None:
        self._aside = FeatureWriter(staging / "unsorted_features.npy", width)
        self._writer = FeatureWriter(staging / EDGE_FEATURES_NAME, width)
        self._matrix: Features | None = None

    def take(self, chunk: Chunk) -> Rows:
        assert chunk.features is not None
        first = self._aside.rows
        self._aside.append(chunk.features)
        return np.arange(first, self._aside.rows)

    def place(self, rows: Rows) -> None:
        if self._matrix is None:
            self._aside.close()
            self._matrix = np.load(self._aside.path, mmap_mode="r")
        self._writer.append(self._matrix[rows])

    def finish(self) -> FeatureRecord:
        self._aside.path.unlink()
        self._writer.close()
        return self._writer.record()


class MatrixFeatures:
    """Features in a `.npy` matrix beside the CSV; a column of the CSV says which row is whose."""

    def __init__(self, staging: Path, matrix: Features) -> None:
        self._matrix = matrix
        self._writer = FeatureWriter(staging / EDGE_FEATURES_NAME, matrix.shape[1])

    def take(self, chunk: Chunk) -> Rows:
        assert chunk.feature_row is not None
        return chunk.feature_row

    def place(self, rows: Rows) -> None:
        self._writer.append(self._matrix[rows].astype(np.float32, copy=False))

    def finish(self) -> FeatureRecord:
        self._writer.close()
        return self._writer.record()


def load_matrix(path: Path) -> Features | None:
    """Map a feature matrix; `None` if it is all zero, which is how DyGLib writes "no features"."""
    try:
        matrix: Features = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy matrix ({error}); fetch it again") from error
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: {matrix.dtype} of shape {matrix.shape}, but features are a matrix of numbers"
        )
    has_values = False
    for first in range(0, len(matrix), _ROWS_AT_ONCE):
        block = matrix[first : first + _ROWS_AT_ONCE]
        has_values |= bool(block.any())
        if not (finite := np.isfinite(block).all(axis=1)).all():
            row = first + int(np.argmin(finite))
            raise InputError(f"{path} row {row:,}: a feature is not finite; correct the matrix")
    return matrix if has_values else None


def write_node_features(staging: Path, path: Path, matrix: Features, raw_ids: pa.Array) -> FeatureRecord:
    """Reorder a matrix whose row is the raw id, as in DyGLib, to dense ids."""
    if raw_ids.type != pa.int64():
        raise InputError(
            f"{path}: node features are found by integer id, but the ids are text; leave the file out"
        )
    ids = raw_ids.to_numpy()
    if len(ids) and not 0 <= ids.min() <= ids.max() < len(matrix):
        raise InputError(
            f"{path}: {len(matrix):,} rows, but ids are {ids.min()} to {ids.max()}; use the file that fits"
        )
    with FeatureWriter(staging / NODE_FEATURES_NAME, matrix.shape[1]) as writer:
        for first in range(0, len(ids), _ROWS_AT_ONCE):
            writer.append(matrix[ids[first : first + _ROWS_AT_ONCE]].astype(np.float32, copy=False))
    return writer.record()
