"""How long a scalability study will still take, by what its cases took so far.

Ours: what recording takes grows with the events; starting, building and the steps take as long at any size. A
rival's time per event grows with the nodes, so its time with the square of the edges, until it is used up.
"""

from collections.abc import Iterable, Sequence
from typing import Any

Line = dict[str, Any]
_GROWING = ("neighbours", "rows", "propagation")


def our_seconds(edges: int, ranks: int, done: Iterable[Line]) -> float | None:
    """Return the seconds of one case; None if `done`, our finished cases in the order they were measured, is
    empty."""
    of_any = list(done)
    known = [line for line in of_any if line["ranks"] == ranks] or of_any
    if not known:
        return None
    nearest = known[-1]
    growing = sum(float(nearest["seconds"][phase]) for phase in _GROWING)
    return growing / int(nearest["edges"]) * edges + float(nearest["wall_seconds"]) - growing


def rival_seconds(edges: int, most: float, finished: Sequence[Line]) -> float:
    """Return the seconds of a rival's case. `most`: what it may take; `finished`: of its cases, those that
    came to their end."""
    if not finished:
        return most
    nearest = finished[-1]
    return float(min(most, nearest["seconds"] * (edges / nearest["edges"]) ** 2))
