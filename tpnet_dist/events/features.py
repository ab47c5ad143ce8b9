"""Feature matrices as float32 `.npy` files: written as a stream, read as memory maps."""

from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import FeatureRecord, describe_file

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
