"""What the user calls a node ↔ its dense id; nodes that are not in the log may be admitted.

Ids of a log are all integers or all text. Where sources and destinations have id spaces of their own, user 7
and item 7 are two nodes, so every question says which side it is about.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpnet_dist.errors import InputError

Side = Literal["src", "dst"]
Dense = npt.NDArray[np.int64]
Ids = npt.NDArray[Any]
"""Ids as people have them: numbers or text."""
RawId = int | str

UNKNOWN = -1
NUM_UNKNOWN = 2
"""Dense ids beyond the capacity: an unknown source, an unknown destination."""
_SHOWN = 5


class RawIds:
    """The nodes of a log, and up to `capacity` others, whose dense ids follow from `first_new` on; then two
    that stand for whoever is unknown."""

    def __init__(self, table: pa.Table, *, first_new: int, capacity: int) -> None:
        """`table`: the log's nodes, row = dense id."""
        self.first_new, self.capacity = first_new, capacity
        self.unknown = range(first_new + capacity, first_new + capacity + NUM_UNKNOWN)
        raw = table.column("raw_id").combine_chunks()
        self.is_text = not pa.types.is_integer(raw.type)
        self.is_bipartite = "side" in table.column_names
        self.newcomers: list[tuple[Side, RawId]] = []
        self._raw: npt.NDArray[Any] = raw.to_numpy(zero_copy_only=False)
        everybody = np.arange(len(raw))
        self._dense_of_side: dict[Side, Dense] = {"src": everybody, "dst": everybody}
        if self.is_bipartite:
            side = table.column("side").to_numpy()
            self._dense_of_side = {"src": np.flatnonzero(side == "src"), "dst": np.flatnonzero(side == "dst")}
        self._known = {side: self._known_of(side) for side in self._spaces()}
        self._admitted: dict[tuple[Side, RawId], int] = {}

    def find(self, ids: Ids, side: Side) -> Dense:
        """Return dense ids; `UNKNOWN` where there is none."""
        values, is_usable_B = self._values(ids)
        dense_B = np.full(len(values), UNKNOWN, np.int64)
        dense_B[is_usable_B] = self._known[self._space(side)].find(values[is_usable_B])
        if self._admitted:
            for row in np.flatnonzero(is_usable_B & (dense_B == UNKNOWN)):
                name = (self._space(side), values[row].item() if not self.is_text else values[row])
                dense_B[row] = self._admitted.get(name, UNKNOWN)
        return dense_B

    def find_sources(self, src: Ids) -> Dense:
        """Return dense ids; whoever is unknown stays so, and all of them are taken for one stranger."""
        src_B = self.find(src, "src")
        return np.where(src_B == UNKNOWN, self.unknown.start, src_B)

    def find_links(self, src: Ids, dst: Ids) -> tuple[Dense, Dense]:
        """Return dense ids of links' ends. Whoever is unknown stays so: there is a stranger for sources and
        one for destinations, whose rows are nobody's, so that no link depends on who else is unknown."""
        src_B, dst_B = self.find_sources(src), self.find(dst, "dst")
        is_unknown_B = dst_B == UNKNOWN
        dst_B[is_unknown_B] = self.unknown.start + 1
        if not self.is_bipartite:
            for row in np.flatnonzero(is_unknown_B & (src_B == self.unknown.start)):
                if _whole(src[row]) == _whole(dst[row]):
                    # a link of a node with itself has one row
                    dst_B[row] = src_B[row]
        return src_B, dst_B

    def admit_links(self, src: Ids, dst: Ids) -> tuple[Dense, Dense]:
        """Return dense ids of links' ends; nodes nobody knows yet get one, all of them or none."""
        given: dict[Side, Ids] = {"src": src, "dst": dst}
        found = {side: self.find(ids, side) for side, ids in given.items()}
        names: dict[tuple[Side, RawId], list[tuple[Side, int]]] = {}
        for side, ids in given.items():
            if len(missing := np.flatnonzero(found[side] == UNKNOWN)):
                values, is_usable_B = self._values(ids)
                for row in missing.tolist():
                    if not is_usable_B[row]:
                        raise InputError(
                            f"id {ids[row]!s} is no whole number, as all ids of this log are; correct it"
                        )
                    name = values[row] if self.is_text else int(values[row])
                    names.setdefault((self._space(side), name), []).append((side, row))
        self.admit_all(list(names))
        for newcomer, places in names.items():
            for side, row in places:
                found[side][row] = self._admitted[newcomer]
        return found["src"], found["dst"]

    def admit_in_turn(self, src: Ids, dst: Ids, sizes: Sequence[int]) -> tuple[Dense, Dense]:
        """Admit links as `admit_links` does, so many at a time: new ids get the numbers they got then."""
        is_known = (self.find(src, "src") != UNKNOWN) & (self.find(dst, "dst") != UNKNOWN)
        stops = np.cumsum(sizes)
        for call in np.unique(np.searchsorted(stops, np.flatnonzero(~is_known), side="right")):
            here = slice(stops[call] - sizes[call], stops[call])
            self.admit_links(src[here], dst[here])
        return self.find(src, "src"), self.find(dst, "dst")

    def admit_all(self, newcomers: Sequence[tuple[Side, RawId]]) -> None:
        """Admit the newcomers of another time, in the same order."""
        self._require_room(len(newcomers))
        for newcomer in newcomers:
            self._admitted[newcomer] = self.first_new + len(self.newcomers)
            self.newcomers.append(newcomer)

    def raw_of(self, dense: Dense) -> npt.NDArray[Any]:
        """Return the names that the user calls these nodes by: int64, or objects that are text."""
        names = np.array([raw for _, raw in self.newcomers], dtype=self._raw.dtype)
        is_new = dense >= self.first_new
        raw = np.empty(dense.shape, self._raw.dtype)
        raw[~is_new] = self._raw[dense[~is_new]]
        raw[is_new] = names[dense[is_new] - self.first_new]
        return raw

    def is_node(self, dense: Dense) -> npt.NDArray[np.bool_]:
        """Return whether each node is one of the log, or one that was admitted."""
        is_of_log = (dense >= 0) & (dense < len(self._raw))
        is_new = (dense >= self.first_new) & (dense < self.first_new + len(self.newcomers))
        found: npt.NDArray[np.bool_] = is_of_log | is_new
        return found

    def destinations(self) -> Dense:
        """Return all nodes that events may lead to."""
        space = self._space("dst")
        new = [self.first_new + number for number, (side, _) in enumerate(self.newcomers) if side == space]
        return np.concatenate([self._dense_of_side["dst"], np.array(new, np.int64)])

    def _require_room(self, count: int) -> None:
        if len(self.newcomers) + count > self.capacity:
            raise InputError(
                f"{len(self.newcomers) + count:,} nodes are not in the log, but there is room for "
                f"{self.capacity:,}; load with a larger capacity, or train on a log that has them"
            )

    def _spaces(self) -> tuple[Side, ...]:
        return ("src", "dst") if self.is_bipartite else ("src",)

    def _space(self, side: Side) -> Side:
        return side if self.is_bipartite else "src"

    def _known_of(self, side: Side) -> "_Integers | _Texts":
        dense = self._dense_of_side[side]
        return (_Texts if self.is_text else _Integers)(self._raw[dense], dense)

    def _values(self, ids: Ids) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the ids as this log writes them, and which of them can be written so."""
        if ids.dtype.kind == "f":
            # a table program's doing: one value missing, and all are fractions
            if not (np.isfinite(ids).all() and (ids % 1 == 0).all()):
                raise InputError("ids are numbers with fractions or missing ones; give whole numbers or text")
            return self._values(ids.astype(np.int64))
        if ids.dtype.kind in "iu" and not self.is_text:
            numbers = ids.astype(np.int64)
            return numbers, np.ones(len(numbers), bool)
        texts = np.array([_text_of(one) for one in ids], object)
        if not self.is_text:
            return _plain_integers(texts)
        if not all(texts):
            raise InputError("an id is empty, but nodes have names; correct it")
        return texts, np.ones(len(texts), bool)


class _Integers:
    """A sorted array."""

    def __init__(self, raw: npt.NDArray[np.int64], dense: Dense) -> None:
        order = np.argsort(raw)
        self._sorted, self._dense = raw[order], dense[order]

    def find(self, values: npt.NDArray[Any]) -> Dense:
        if not len(self._sorted):
            return np.full(len(values), UNKNOWN, np.int64)
        place = np.minimum(self._sorted.searchsorted(values), len(self._sorted) - 1)
        return np.where(self._sorted[place] == values, self._dense[place], UNKNOWN)


class _Texts:
    """A dictionary."""

    def __init__(self, raw: npt.NDArray[Any], dense: Dense) -> None:
        self._dense = dict(zip(raw.tolist(), dense.tolist(), strict=True))

    def find(self, values: npt.NDArray[Any]) -> Dense:
        found = (self._dense.get(value, UNKNOWN) for value in values)
        return np.fromiter(found, np.int64, len(values))


def some_of(ids: Sequence[Any]) -> str:
    """Return a few of them, for a message."""
    shown = ", ".join(str(one) for one in ids[:_SHOWN])
    return f"{shown}, …" if len(ids) > _SHOWN else shown


def _whole(one: Any) -> str:  # noqa: ANN401 — an id is whatever an array holds
    """Return ids as text; whole numbers that became fractions are whole again."""
    return str(int(one) if isinstance(one, float | np.floating) else one).strip()


def _text_of(one: object) -> str:
    """Return an id without blanks around it, as logs have ids; refuse what is only taken for a name by
    mistake: None, NaN, True."""
    if not isinstance(one, str | int | np.integer) or isinstance(one, bool):
        raise InputError(f"id {one!r} is neither text nor a whole number; correct it")
    return str(one).strip()


def _plain_integers(objects: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the numbers, and which texts are plainly written ones: 007 is none."""
    texts = pa.array(objects, pa.string())
    is_plain = pc.match_substring_regex(texts, r"^(0|-?[1-9]\d{0,18})$").to_numpy(zero_copy_only=False)
    numbers = [int(text) if plain else 0 for text, plain in zip(objects, is_plain, strict=True)]
    # with 19 digits some are too large for the 64 bits that ids have
    is_small = np.array([-(2**63) <= number < 2**63 for number in numbers], bool)
    small = [number if fits else 0 for number, fits in zip(numbers, is_small, strict=True)]
    return np.array(small, np.int64), is_plain & is_small
