"""Feature matrices as float32 `.npy` files: written as a stream, read as memory maps."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.file_records import FeatureRecord, describe_file

EDGE_FEATURES_NAME = "edge_features.npy"
NODE_FEATURES_NAME = "node_features.npy"

Features = npt.NDArray[np.float32]


class FeatureWriter:
    """Append rows to a `.npy` file whose number of rows is known only at the end."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width, self.rows = path, width, 0
        self._file = path.open("wb+")
        self._write_header()

    def append(self, rows: Features) -> None:
        assert rows.ndim == 2 and rows.shape[1] == self.width, (rows.shape, self.width)
        self._file.write(np.ascontiguousarray(rows, dtype=np.float32).data)
        self.rows += len(rows)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def record(self) -> FeatureRecord:
        return FeatureRecord(**asdict(describe_file(self.path)), rows=self.rows, width=self.width)

    def __enter__(self) -> "FeatureWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()

    def _write_header(self) -> None:
        # numpy pads the header so that the first dimension can grow in place
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self._file, header)


def map_features(folder: Path, record: FeatureRecord) -> Features:
    """Memory-map a feature file after checking that it has the shape the manifest promises."""
    path = folder / record.file
    try:
        # copy on write: torch warns of tensors that must not be written to, though nobody writes
        features: Features = np.load(path, mmap_mode="c", allow_pickle=False)
    except ValueError as error:
        raise InputError(
            f"{path}: not a readable .npy file ({error}); restore it or convert again"
        ) from error
    if features.shape != (record.rows, record.width) or features.dtype != np.float32:
        raise InputError(
            f"{path}: holds {features.shape} {features.dtype} where the manifest says "
            f"({record.rows}, {record.width}) float32; restore it or convert again"
        )
    return features


class FeatureParts:
    """Matrices one after another, looked up as if they were one: of a log that events were appended to."""

    def __init__(self, parts: Sequence[Features]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.shape = (int(self._starts[-1]), int(parts[0].shape[1]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: npt.NDArray[np.int64] | slice, /) -> Features:
        which = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        found = np.empty((*which.shape, self.shape[1]), np.float32)
        part_of = self._starts.searchsorted(which, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            found[here] = self._parts[number][which[here] - self._starts[number]]
        return found


def joined_features(folder: Path, records: Sequence[FeatureRecord]) -> Features | FeatureParts | None:
    """Return one matrix as it is mapped, several as parts; None if there is none."""
    parts = [map_features(folder, record) for record in records]
    return FeatureParts(parts) if len(parts) > 1 else next(iter(parts), None)
