"""Raw ids to codes 0, 1, 2 … in order of appearance, growing with the stream."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep import id_tables
from data_prep.values import Rejected, parse_ids
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS

Codes = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Whole = TypeVar("Whole", np.int32, np.int64)

_FIRST_SLOTS = 1 << 12
_FIRST_WORDS = 1 << 12
SOURCE, DESTINATION = 0, 1


class IdMap:
    """Integers until the first id that is not one; then every id so far becomes text, and nothing is lost.

    The cost of a chunk does not grow with the ids known: a log may have as many nodes as events. Codes do not
    depend on how the log is cut into chunks.
    """

    def __init__(self) -> None:
        self._known: _KnownIntegers | _KnownTexts = _KnownIntegers()
        self.num_before = 0
        """Codes below it were known from the beginning."""

    @classmethod
    def of_log(cls, raw: pa.Array) -> "IdMap":
        """Make a map of the ids of a log that is appended to: their codes are their places, and no event is
        counted yet."""
        ids = cls()
        if not pa.types.is_integer(raw.type):
            ids._known = _KnownTexts()
            raw = pc.cast(raw, pa.large_string())
        if len(raw):
            ids._known.codes_of([raw], SOURCE)
        ids._known.forget_events()
        ids.num_before = len(raw)
        return ids

    def __len__(self) -> int:
        return len(self._known)

    @property
    def raw(self) -> pa.Array:
        """The ids by code."""
        return self._known.by_code()

    @property
    def degree(self) -> Integers:
        degrees: Integers = self._known.states() >> id_tables.DEGREE_SHIFT
        return degrees

    @property
    def num_on_both_sides(self) -> int:
        both = int(id_tables.SEEN_AS.sum())
        return int(np.count_nonzero(self._known.states() & both == both))

    def num_shared_with(self, other: "IdMap") -> int:
        """Count ids that are written alike in both."""
        one, two = sorted((self.raw, other.raw), key=len)
        if one.type != two.type:
            one, two = (pc.cast(ids, pa.large_string()) for ids in (one, two))
        return int(pc.sum(pc.is_in(two, value_set=one)).as_py() or 0)

    def sources_first(self) -> Integers:
        """Return all codes: first those seen as sources, in that order, then the others."""
        sources = self._known.sources()
        others = np.ones(len(self), np.bool_)
        others[sources] = False
        return np.concatenate([sources.astype(np.int64), np.flatnonzero(others)])

    def encode(
        self,
        columns: Sequence[pa.Array],
        first_role: int = SOURCE,
        *,
        are_parsed: bool = False,
        missing: Sequence[str] = MISSING_SPELLINGS,
    ) -> list[Codes]:
        """Return the codes of the ids in the columns, sources first, which have equally many rows; new ones
        are admitted. Raises `Rejected` on a null id. `are_parsed`: `parse_ids` was here. `missing`: what
        no id is."""
        as_text = isinstance(self._known, _KnownTexts)
        ids = list(columns)
        if not are_parsed:
            ids = [parse_ids(each, as_text=as_text, missing=missing) for each in columns]
        if as_text or any(not pa.types.is_integer(column.type) for column in ids):
            ids = [pc.cast(column, pa.large_string()) for column in ids]
            if isinstance(self._known, _KnownIntegers):
                if self.num_before:
                    raise Rejected
                self._known = _KnownTexts.of(self._known)
        codes = self._known.codes_of(ids, first_role)
        return list(codes.reshape(len(columns), -1))


class _KnownIntegers:
    def __init__(self) -> None:
        self._slots = _empty_slots(_FIRST_SLOTS)
        self._raw = np.empty(_FIRST_SLOTS // 2, np.int64)
        self._order = np.empty(_FIRST_SLOTS // 2, np.int32)
        self._counts = np.zeros(3, np.int64)
        """Nodes, sources, and a place for the loops to write to."""

    def __len__(self) -> int:
        return int(self._counts[0])

    def codes_of(self, columns: list[pa.Array], first_role: int) -> Codes:
        keys = np.concatenate([column.to_numpy() for column in columns])
        codes, done = np.empty(len(keys), np.int32), 0
        while True:
            done = id_tables.code_integers(
                keys, len(columns), first_role, done, self._slots, self._raw, self._order, self._counts, codes
            )
            if done == len(keys):
                return codes
            self._grow()

    def _grow(self) -> None:
        smaller, self._slots = self._slots, _empty_slots(2 * len(self._slots))
        id_tables.move_integers(smaller, self._slots)
        half = len(self._slots) // 2
        self._raw, self._order = _grown(self._raw, half), _grown(self._order, half)

    def by_code(self) -> pa.Array:
        return pa.array(self._raw[: len(self)])

    def states(self) -> Integers:
        states = np.empty(len(self), np.int64)
        id_tables.states_of_integers(self._slots, states)
        return states

    def sources(self) -> Codes:
        return self._order[: int(self._counts[1])]

    def forget_events(self) -> None:
        """Keep codes alone: nobody was seen yet."""
        is_known = self._slots[:, 1] != id_tables.EMPTY
        self._slots[is_known, 1] &= id_tables.CODE_MASK
        self._counts[1] = 0


class _KnownTexts:
    def __init__(self) -> None:
        self._slots = _empty_slots(_FIRST_SLOTS)
        self._arena = np.empty(_FIRST_WORDS, np.int64)
        self._order = np.empty(_FIRST_SLOTS // 2, np.int32)
        self._counts = np.zeros(4, np.int64)
        """Nodes, sources, words of the arena, and a place for the loops to write to."""

    @classmethod
    def of(cls, integers: _KnownIntegers) -> "_KnownTexts":
        """Make a map of the same nodes, whose ids are now text."""
        known = cls()
        if len(integers):
            known.codes_of([pc.cast(integers.by_code(), pa.large_string())], SOURCE)
            id_tables.set_states(known._arena, integers.states())
        sources = integers.sources()
        known._order[: len(sources)] = sources
        known._counts[1] = len(sources)
        return known

    def __len__(self) -> int:
        return int(self._counts[0])

    def codes_of(self, columns: list[pa.Array], first_role: int) -> Codes:
        keys = pa.concat_arrays(columns)
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
        num_bytes = int(starts[-1] - starts[0])
        words = int(self._counts[2]) + num_bytes // 8 + (1 + id_tables.HEADER_WORDS) * len(keys)
        self._arena = _grown(self._arena, words)
        letters = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        codes, done = np.empty(len(keys), np.int32), 0
        while True:
            done = id_tables.code_texts(
                starts,
                letters,
                len(columns),
                first_role,
                done,
                self._slots,
                self._arena,
                self._order,
                self._counts,
                codes,
            )
            if done == len(keys):
                return codes
            smaller, self._slots = self._slots, _empty_slots(2 * len(self._slots))
            id_tables.move_texts(smaller, self._slots)
            self._order = _grown(self._order, len(self._slots) // 2)

    def by_code(self) -> pa.Array:
        lengths, _ = self._lengths_and_states()
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        data = np.empty(int(offsets[-1]), np.uint8)
        id_tables.copy_texts(self._arena, offsets, data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.LargeStringArray.from_buffers(len(self), *buffers[1:])

    def states(self) -> Integers:
        return self._lengths_and_states()[1]

    def sources(self) -> Codes:
        return self._order[: int(self._counts[1])]

    def forget_events(self) -> None:
        id_tables.set_states(self._arena, np.arange(len(self)))
        self._counts[1] = 0

    def _lengths_and_states(self) -> tuple[Integers, Integers]:
        lengths, states = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        id_tables.lengths_and_states(self._arena, lengths, states)
        return lengths, states


def _empty_slots(least: int) -> Integers:
    """Return empty slots, a power of two; a table is at most half full."""
    slots = np.zeros((1 << (least - 1).bit_length(), 2), np.int64)
    slots[:, 1] = id_tables.EMPTY
    return slots


def _grown(array: npt.NDArray[Whole], needed: int) -> npt.NDArray[Whole]:
    """Return the array with room for `needed` values; it grows by half, so that copying stays rare."""
    if needed <= len(array):
        return array
    grown = np.empty(max(needed, len(array) * 3 // 2), array.dtype)
    grown[: len(array)] = array
    return grown
