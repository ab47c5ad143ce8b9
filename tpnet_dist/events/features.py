"""Feature matrices as float32 `.npy` files: written as a stream, read as memory maps whose pages are compared
with their checksums when they are first touched."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.file_records import FeatureRecord, describe_file
from tpnet_dist.events.page_checksums import PAGE_BYTES, PageCheck, PageSums
from tpnet_dist.files.npy_files import map_npy

EDGE_FEATURES_NAME = "edge_features.npy"
NODE_FEATURES_NAME = "node_features.npy"

Features = npt.NDArray[np.float32]


class FeatureWriter:
    """Append rows to a `.npy` file whose number of rows is known only at the end."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width, self.rows = path, width, 0
        self._file = path.open("wb+")
        self._sums = PageSums()
        self._write_header()
        # stands for the header, which takes as many bytes
        self._sums.add(memoryview(bytes(self._file.tell())))

    def append(self, rows: Features) -> None:
        assert rows.ndim == 2 and rows.shape[1] == self.width, (rows.shape, self.width)
        content = np.ascontiguousarray(rows, dtype=np.float32).reshape(-1).view(np.uint8).data
        self._file.write(content)
        self._sums.add(content)
        self.rows += len(rows)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._sums.write(self._file)
        self._file.close()

    def record(self) -> FeatureRecord:
        described = asdict(describe_file(self.path))
        return FeatureRecord(**described, rows=self.rows, width=self.width, page_bytes=PAGE_BYTES)

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


class CheckedFeatures:
    """A matrix on disk, looked up like one in memory; what is read was compared with its checksum."""

    def __init__(self, path: Path, record: FeatureRecord) -> None:
        """InputError unless the file has the shape that the manifest promises."""
        try:
            # copy on write: torch warns of tensors that must not be written to, though nobody writes
            features: Features = map_npy(path, "c")
        except InputError as error:
            raise InputError(f"{error}; restore it or convert again") from error
        if (
            features.shape != (record.rows, record.width)
            or features.dtype != np.float32
            or not features.flags.c_contiguous
        ):
            raise InputError(
                f"{path}: holds {features.shape} {features.dtype} where the manifest says "
                f"({record.rows}, {record.width}) float32; restore it or convert again"
            )
        self.shape = record.rows, record.width
        self._features, self._row_bytes = np.asarray(features), 4 * record.width
        self._offset = int(features.offset)  # type: ignore[attr-defined]  # of a map
        self._check = PageCheck(path, self._offset + features.nbytes, record.page_bytes)
        self._check.require_range(0, 1)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any, /) -> Features:  # noqa: ANN401 — whatever numpy takes
        which = rows[0] if isinstance(rows, tuple) else rows
        is_plain = isinstance(which, slice) or (isinstance(which, np.ndarray) and which.dtype.kind == "i")
        self._require(which if is_plain else np.atleast_1d(np.arange(len(self))[which]))
        found: Features = self._features[rows]
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All of it, for numpy's functions."""
        return np.array(self[:], dtype, copy=copy)

    def _require(self, rows: npt.NDArray[np.int64] | slice) -> None:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            if start >= stop:
                return
            first, end = np.array([start]), np.array([stop])
        else:
            first, end = rows, rows + 1
        self._check.require(self._offset + first * self._row_bytes, self._offset + end * self._row_bytes - 1)


class FeatureParts:
    """Matrices one after another, looked up as if they were one: of a log that events were appended to."""

    def __init__(self, parts: Sequence[CheckedFeatures]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.shape = (int(self._starts[-1]), parts[0].shape[1])

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


LogFeatures = CheckedFeatures | FeatureParts


def joined_features(folder: Path, records: Sequence[FeatureRecord]) -> LogFeatures | None:
    """Return one matrix as it is, several as parts; None if there is none."""
    parts = [CheckedFeatures(folder / record.file, record) for record in records]
    return FeatureParts(parts) if len(parts) > 1 else next(iter(parts), None)
