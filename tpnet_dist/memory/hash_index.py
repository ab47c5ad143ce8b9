"""A small hash table from node ids to numbers, for compiled code: no array as long as there are nodes.

The table holds numbers; the ids they stand for lie in an array beside it, by number.
"""

import numpy as np
import numpy.typing as npt

from tpnet_dist.memory.numba_tools import compiled


def new_index(size: int) -> npt.NDArray[np.int32]:
    """Return an empty index, for at most so many ids."""
    return np.full(max(16, 1 << (2 * size - 1).bit_length()), -1, np.int32)


@compiled
def clear_index(index):
    for cell in range(len(index)):
        index[cell] = -1


@compiled
def _cell_of(key, index, keys):
    """Return the cell that holds a key's number, or that would hold it."""
    # an odd factor spreads keys that lie side by side
    cell = ((key * 0x9E3779B1) >> 7) & (len(index) - 1)
    while index[cell] >= 0 and keys[index[cell]] != key:
        cell = (cell + 1) & (len(index) - 1)
    return cell


@compiled
def number_of(key, index, keys, count):
    """Return a key's number; `count` if it is new, then it is added with that number."""
    cell = _cell_of(key, index, keys)
    if index[cell] < 0:
        index[cell], keys[count] = count, key
    return np.int64(index[cell])


@compiled
def find_in_index(wanted, index, keys, numbers):
    """Put the numbers of some keys into `numbers`; -1 for those that have none."""
    for i in range(len(wanted)):
        numbers[i] = index[_cell_of(wanted[i], index, keys)]


@compiled
def add_to_index(numbers, index, keys):
    for i in range(len(numbers)):
        index[_cell_of(keys[numbers[i]], index, keys)] = numbers[i]
