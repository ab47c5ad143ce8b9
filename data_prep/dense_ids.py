"""Deal dense node ids so that contiguous blocks of them carry equal degree, however many blocks there are."""

import numpy as np
import numpy.typing as npt


def assign_dense_ids(degree: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the dense id of each node code.

    Nodes are dealt like cards, heaviest first, to two halves in snake order (A B B A A B B A …), and so
    on inside each half. Example, eight nodes by falling degree: the heaviest gets id 0, the others
    4, 6, 2, 3, 7, 5, 1; ids 0-3 then hold the 1st, 8th, 4th and 5th, ids 4-7 the 2nd, 7th, 3rd and 6th.

    The half is the last bit of the Gray code of the node's place, the quarter the last but one, …:
    read backwards, the Gray code is the id. Where n is no power of two, ids close up over unused keys.
    """
    num_nodes = len(degree)
    heaviest_first = np.argsort(-degree, kind="stable")
    place = np.arange(num_nodes)
    key = _reverse_bits(place ^ (place >> 1), num_bits=max(0, num_nodes - 1).bit_length())
    dense_id = np.empty(num_nodes, dtype=np.int64)
    dense_id[heaviest_first[np.argsort(key)]] = place
    return dense_id


def _reverse_bits(values: npt.NDArray[np.int64], *, num_bits: int) -> npt.NDArray[np.int64]:
    reversed_values = np.zeros_like(values)
    for bit in range(num_bits):
        reversed_values |= ((values >> bit) & 1) << (num_bits - 1 - bit)
    return reversed_values
