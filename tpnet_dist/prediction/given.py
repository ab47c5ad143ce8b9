"""Ids and features as a caller has them, to arrays; what cannot be one is refused."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.features import Features
from tpnet_dist.events.raw_ids import Ids

Unknown = Literal["refuse", "score"]
GivenIds = int | str | Sequence[Any] | npt.NDArray[Any]


def as_ids(given: GivenIds) -> Ids:
    try:
        ids = np.atleast_1d(np.asarray(given))
    except ValueError as error:
        raise InputError(f"ids are lists of unequal lengths ({error}); give one list of ids") from error
    if ids.ndim > 1:
        raise InputError(f"ids have the shape {ids.shape}, but are one list; flatten them")
    # numpy would make text of a NaN among text
    is_mixed = ids.dtype.kind == "U" and not isinstance(given, np.ndarray)
    return np.atleast_1d(np.asarray(given, object)) if is_mixed else ids


def as_rows(given: npt.ArrayLike) -> Features:
    try:
        with np.errstate(over="ignore"):  # what is too large is infinite, which is refused
            return np.asarray(given).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"features are no numbers: {error}; give a row of numbers for each event") from error


def same_length(src: GivenIds, dst: GivenIds) -> tuple[Ids, Ids]:
    sources, destinations = as_ids(src), as_ids(dst)
    if len(sources) != len(destinations):
        raise InputError(
            f"{len(sources):,} sources and {len(destinations):,} destinations; give as many of each"
        )
    return sources, destinations


def is_refusing(unknown: str) -> bool:
    if unknown not in get_args(Unknown):
        raise InputError(f"unknown is {unknown!r}, but must be one of refuse, score; choose one")
    return unknown == "refuse"


def require_within(name: str, value: int, most: int, why: str) -> None:
    if not 0 <= value <= most:
        remedy = "raise it" if value < 0 else "lower it"
        raise InputError(f"{name} is {value:,}, but must be within 0…{most:,}, {why}; {remedy}")
