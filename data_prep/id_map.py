"""Raw ids to codes 0, 1, 2 … in order of appearance, growing with the stream."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.values import parse_ids

Codes = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]


class IdMap:
    """Integers until the first id that is not one; then every id so far becomes text, and nothing is lost.

    A chunk's distinct ids are looked up, not its rows, and the known ones are never hashed anew: a log with
    as many nodes as events converts about as fast per row as one with few.
    """

    def __init__(self) -> None:
        self.degree: Integers = np.zeros(0, np.int64)
        self._known: _KnownIntegers | _KnownTexts = _KnownIntegers()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def raw(self) -> pa.Array:
        """The ids by code."""
        return self._known.by_code()

    def encode(self, column: pa.Array) -> Codes:
        """Codes of the ids in `column`, new ones admitted; raises `Rejected` on a null id."""
        ids = parse_ids(column, as_text=isinstance(self._known, _KnownTexts))
        if ids.type == pa.string() and isinstance(self._known, _KnownIntegers):
            self._known = _KnownTexts(pc.cast(self._known.by_code(), pa.string()))
        distinct = ids.dictionary_encode()
        codes: Codes = self._known.codes_of(distinct.dictionary)[distinct.indices.to_numpy()]
        counts = np.bincount(codes, minlength=len(self))
        counts[: len(self.degree)] += self.degree
        self.degree = counts
        return codes


class _KnownIntegers:
    """A sorted array: admitting newcomers is one merge, looking up one binary search each."""

    def __init__(self) -> None:
        self._sorted: Integers = np.zeros(0, np.int64)
        self._code: Codes = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self._sorted)

    def codes_of(self, distinct: pa.Array) -> Codes:
        ids: Integers = distinct.to_numpy()
        order = np.argsort(ids)  # looking up in order is ten times as fast as at random
        ids = ids[order]
        place = np.searchsorted(self._sorted, ids)
        is_known = np.zeros(len(ids), bool)
        within = place < len(self)
        is_known[within] = self._sorted[place[within]] == ids[within]
        codes = np.empty(len(ids), np.int32)
        codes[order[is_known]] = self._code[place[is_known]]
        newcomers = np.sort(order[~is_known])
        codes[newcomers] = np.arange(len(self), len(self) + len(newcomers), dtype=np.int32)
        self._sorted = np.insert(self._sorted, place[~is_known], ids[~is_known])
        self._code = np.insert(self._code, place[~is_known], codes[order[~is_known]])
        return codes

    def by_code(self) -> pa.Array:
        ids = np.empty(len(self), np.int64)
        ids[self._code] = self._sorted
        return pa.array(ids)


class _KnownTexts:
    """A dictionary."""

    def __init__(self, by_code: pa.Array) -> None:
        self._code = {text: code for code, text in enumerate(by_code.to_pylist())}

    def __len__(self) -> int:
        return len(self._code)

    def codes_of(self, distinct: pa.Array) -> Codes:
        code = self._code
        return np.array([code.setdefault(text, len(code)) for text in distinct.to_pylist()], np.int32)

    def by_code(self) -> pa.Array:
        return pa.array(self._code, pa.string())
