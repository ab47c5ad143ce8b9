"""Raw ids to codes 0, 1, 2 … in order of appearance, growing with the stream."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.values import parse_ids

MAX_NODES = 2**31 - 1


class IdMap:
    """Integers until the first id that is not one; then every id so far becomes text, and nothing is lost."""

    def __init__(self) -> None:
        self.raw: pa.Array = pa.array([], pa.int64())
        self.degree: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.raw)

    def encode(self, column: pa.Array) -> npt.NDArray[np.int32]:
        """Codes of the ids in `column`, new ones admitted; raises `Rejected` on a null id."""
        ids = parse_ids(column, as_text=self.raw.type == pa.string())
        if ids.type != self.raw.type:
            self.raw = pc.cast(self.raw, pa.string())
        codes = pc.index_in(ids, value_set=self.raw)
        if codes.null_count:
            newcomers = pc.unique(ids.filter(pc.is_null(codes)))
            self.raw = pa.concat_arrays([self.raw, newcomers])
            assert len(self.raw) <= MAX_NODES, "dense ids are int32"
            codes = pc.index_in(ids, value_set=self.raw)
        encoded: npt.NDArray[np.int32] = codes.to_numpy()
        counts = np.bincount(encoded, minlength=len(self.raw))
        counts[: len(self.degree)] += self.degree
        self.degree = counts
        return encoded
