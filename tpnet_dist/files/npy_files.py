"""`.npy` files, mapped: whatever a damaged header leads numpy to is one sentence."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError


def map_npy(path: Path, mode: Literal["r", "c"]) -> npt.NDArray[Any]:
    """Map a matrix of plain values; nothing that is pickled or packed is looked at."""
    try:
        mapped: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode=mode)
    except OSError:
        raise
    except Exception as error:  # numpy has the header parsed as Python
        raise InputError(f"{path}: not a readable .npy file (Numpy says: {_in_short(error)})") from error
    return mapped


def _in_short(error: Exception) -> str:
    return f"{' '.join(str(error).split()) or type(error).__name__:.200}"
