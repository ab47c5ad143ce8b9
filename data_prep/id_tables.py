"""Hash tables that give ids codes 0, 1, 2 … in order of appearance, compiled; whole chunks at a time.

A node's state is one word: bits 0-30 are its code, 31 and 32 say whether it was seen as a source and as a
destination, the rest is its degree. Texts lie one after another as words of eight bytes, each behind its
state and its length; the table holds where. A look-up compares the text itself: equal hashes never make
equal ids.

Keys are the rows of a source column and a destination column, one after the other in one array, and are taken
by turns, so that codes do not depend on how a log is cut into chunks. Most look-ups miss the processor's
caches. So the loops take a few keys at a time and load for all of them what the next loop needs: the misses
overlap.
"""

from typing import Any

import numba
import numpy as np

compiled: Any = numba.njit(nogil=True, cache=True)
"""Compiled on its first call, once for a machine, and free of the interpreter while it runs."""

CODE_MASK = (1 << 31) - 1
SEEN_AS = np.array([1 << 31, 1 << 32], np.int64)
ONE_EVENT, DEGREE_SHIFT = 1 << 33, 33

EMPTY = -1
HEADER_WORDS = 2
_AT_ONCE = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _mixed(word):
    word = (word ^ (word >> np.uint64(32))) * _MULTIPLIER
    word = (word ^ (word >> np.uint64(29))) * _MULTIPLIER
    return word ^ (word >> np.uint64(32))


@compiled
def _seen(state, role, order, counts):
    """Return the state after one more event; sources are listed in the order in which they are first seen as
    such."""
    state += ONE_EVENT
    if not state & SEEN_AS[role]:
        state |= SEEN_AS[role]
        if role == 0:
            order[counts[1]] = state & CODE_MASK
            counts[1] += 1
    return state


@compiled
def code_integers(keys, num_columns, first_role, first, slots, raw, order, counts, codes):
    """Code keys from turn `first` on until the table is half full; return the turn it ends at.

    `slots` (S, 2): an id and its state, the latter `EMPTY` where there is none. `raw`, `order`: S / 2 long.
    `counts`: nodes, sources."""
    mask, num_rows = np.uint64(len(slots) - 1), len(keys) // num_columns
    places, loaded = np.empty(_AT_ONCE, np.uint64), np.int64(0)
    for start in range(first, len(keys), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(keys))
        if counts[0] + stop - start > len(raw):
            return start
        for turn in range(start, stop):
            row = turn // num_columns + turn % num_columns * num_rows
            place = _mixed(np.uint64(keys[row])) & mask
            places[turn - start] = place
            loaded ^= slots[place, 0]
        for turn in range(start, stop):
            column = turn % num_columns
            row = turn // num_columns + column * num_rows
            place, key = places[turn - start], keys[row]
            while slots[place, 1] != EMPTY and slots[place, 0] != key:
                place = (place + np.uint64(1)) & mask
            state = slots[place, 1]
            if state == EMPTY:
                slots[place, 0], raw[counts[0]] = key, key
                state = counts[0]
                counts[0] += 1
            state = _seen(state, first_role + column, order, counts)
            slots[place, 1] = state
            codes[row] = state & CODE_MASK
        # or the compiler would leave the loads out
        counts[-1] = loaded
    return len(keys)


@compiled
def move_integers(old_slots, slots):
    """Put all nodes into a larger table."""
    mask = np.uint64(len(slots) - 1)
    for number in range(len(old_slots)):
        if old_slots[number, 1] != EMPTY:
            place = _mixed(np.uint64(old_slots[number, 0])) & mask
            while slots[place, 1] != EMPTY:
                place = (place + np.uint64(1)) & mask
            slots[place] = old_slots[number]


@compiled
def states_of_integers(slots, states):
    """Fill in the state of each code."""
    for number in range(len(slots)):
        if slots[number, 1] != EMPTY:
            states[slots[number, 1] & CODE_MASK] = slots[number, 1]


@compiled
def _word(data, begin, end):
    """Return up to eight bytes as one word."""
    word = np.uint64(0)
    for number in range(min(end - begin, 8)):
        word |= np.uint64(data[begin + number]) << np.uint64(8 * number)
    return word


@compiled
def _hash(data, begin, end):
    value = np.uint64(end - begin)
    while begin < end:
        value = _mixed(value ^ _word(data, begin, end))
        begin += 8
    return value


@compiled
def _is_text(arena, where, data, begin, end):
    if arena[where + 1] != end - begin:
        return False
    place = where + HEADER_WORDS
    while begin < end:
        if np.uint64(arena[place]) != _word(data, begin, end):
            return False
        begin += 8
        place += 1
    return True


@compiled
def _add_text(arena, where, state, data, begin, end):
    """Write it behind the others; return where the next one goes."""
    arena[where], arena[where + 1] = state, end - begin
    place = where + HEADER_WORDS
    while begin < end:
        arena[place] = np.int64(_word(data, begin, end))
        begin += 8
        place += 1
    return place


@compiled
def code_texts(offsets, data, num_columns, first_role, first, slots, arena, order, counts, codes):
    """Code keys from turn `first` on until the table is half full; return the turn it ends at.

    `slots` (S, 2): a hash and where its text lies, `EMPTY` where there is none. `order`: S / 2 long.
    `counts`: nodes, sources, words of the arena, which has room for all."""
    mask, num_keys = np.uint64(len(slots) - 1), len(offsets) - 1
    num_rows = num_keys // num_columns
    hashes, loaded = np.empty(_AT_ONCE, np.uint64), np.int64(0)
    for start in range(first, num_keys, _AT_ONCE):
        stop = min(start + _AT_ONCE, num_keys)
        if counts[0] + stop - start > len(order):
            return start
        for turn in range(start, stop):
            row = turn // num_columns + turn % num_columns * num_rows
            hashes[turn - start] = _hash(data, offsets[row], offsets[row + 1])
            loaded ^= slots[hashes[turn - start] & mask, 1]
        for turn in range(start, stop):
            where = slots[hashes[turn - start] & mask, 1]
            if where != EMPTY:
                loaded ^= arena[where]
        for turn in range(start, stop):
            column = turn % num_columns
            row = turn // num_columns + column * num_rows
            begin, end, value = offsets[row], offsets[row + 1], np.int64(hashes[turn - start])
            place = hashes[turn - start] & mask
            where = slots[place, 1]
            while where != EMPTY and (
                slots[place, 0] != value or not _is_text(arena, where, data, begin, end)
            ):
                place = (place + np.uint64(1)) & mask
                where = slots[place, 1]
            if where == EMPTY:
                where = counts[2]
                slots[place, 0], slots[place, 1] = value, where
                counts[2] = _add_text(arena, where, counts[0], data, begin, end)
                counts[0] += 1
            arena[where] = _seen(arena[where], first_role + column, order, counts)
            codes[row] = arena[where] & CODE_MASK
        # or the compiler would leave the loads out
        counts[-1] = loaded
    return num_keys


@compiled
def move_texts(old_slots, slots):
    """Put all texts into a larger table."""
    mask = np.uint64(len(slots) - 1)
    for number in range(len(old_slots)):
        if old_slots[number, 1] != EMPTY:
            place = np.uint64(old_slots[number, 0]) & mask
            while slots[place, 1] != EMPTY:
                place = (place + np.uint64(1)) & mask
            slots[place] = old_slots[number]


@compiled
def lengths_and_states(arena, lengths, states):
    """Fill in the length and the state of each code, in order."""
    where = 0
    for code in range(len(lengths)):
        states[code], lengths[code] = arena[where], arena[where + 1]
        where += HEADER_WORDS + (lengths[code] + 7) // 8


@compiled
def copy_texts(arena, offsets, data):
    """Copy all texts in order of code, as Arrow has them."""
    where = 0
    for code in range(len(offsets) - 1):
        length = offsets[code + 1] - offsets[code]
        for number in range(length):
            word = np.uint64(arena[where + HEADER_WORDS + number // 8])
            data[offsets[code] + number] = np.uint8(word >> np.uint64(8 * (number % 8)) & np.uint64(255))
        where += HEADER_WORDS + (length + 7) // 8


@compiled
def set_states(arena, states):
    """Set the states of texts that were known by other names."""
    where = 0
    for code in range(len(states)):
        arena[where] = states[code]
        where += HEADER_WORDS + (arena[where + 1] + 7) // 8
