"""Raw ids to codes 0, 1, 2 … in order of appearance, growing with the stream."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.values import parse_ids

_FEW_TEXTS = 1 << 19

Codes = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]


class IdMap:
    """Integers until the first id that is not one; then every id so far becomes text, and nothing is lost.

    The cost of a chunk does not grow with the ids known: a log may have as many nodes as events.
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
        codes = self._known.codes_of(ids)
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

    def codes_of(self, column: pa.Array) -> Codes:
        distinct = column.dictionary_encode()
        codes: Codes = self._codes_of_distinct(distinct.dictionary.to_numpy())[distinct.indices.to_numpy()]
        return codes

    def _codes_of_distinct(self, ids: Integers) -> Codes:
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
    """While they are few, Arrow hashes the known ones anew for every chunk; many are kept in a dictionary."""

    def __init__(self, by_code: pa.Array) -> None:
        self._few: pa.Array = by_code
        self._many: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._many) or len(self._few)

    def codes_of(self, column: pa.Array) -> Codes:
        if self._many or len(self._few) > _FEW_TEXTS:
            self._many = self._many or {text: code for code, text in enumerate(self._few.to_pylist())}
            distinct = column.dictionary_encode()
            looked_up = [self._many.setdefault(t, len(self._many)) for t in distinct.dictionary.to_pylist()]
            from_many: Codes = np.array(looked_up, np.int32)[distinct.indices.to_numpy()]
            return from_many
        codes = pc.index_in(column, value_set=self._few)
        if codes.null_count:
            newcomers = pc.unique(column.filter(pc.is_null(codes)))
            self._few = pa.concat_arrays([self._few, newcomers])
            codes = pc.index_in(column, value_set=self._few)
        found: Codes = codes.to_numpy()
        return found

    def by_code(self) -> pa.Array:
        return pa.array(self._many, pa.string()) if self._many else self._few
