"""Where Triton's kernels serve: on CUDA, once each has computed there what plain torch operations compute.

CUDA builds of torch bring Triton along, builds for the host do not. A kernel that does not compile or differs
on a small trial is left alone, and torch operations do its work.
"""

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch

NEEDED_CAPABILITY = (7, 0)
"""What Triton compiles for: Volta and later."""
MOST_DIFFERENCE = 1e-5
"""Of a trial in float32, relative to its largest number."""

Trial = Callable[[torch.device], float]
"""Runs a kernel on little, and returns by how much its result differs from that of torch operations."""
_log = logging.getLogger(__name__)


def triton_is_there(device: torch.device) -> bool:
    """Return whether Triton can compile for this device at all."""
    if device.type != "cuda" or torch.version.cuda is None or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= NEEDED_CAPABILITY


@cache
def passes_trial(trial: Trial, device: torch.device) -> bool:
    """Return whether the kernel of this trial serves on this device; the first call compiles it."""
    try:
        difference = trial(device)
    except Exception as error:
        # compilers raise what they like, and without a kernel all goes on
        _log.warning("a Triton kernel is not used: %s: %s", type(error).__name__, str(error).split("\n")[0])
        return False
    if difference <= MOST_DIFFERENCE:
        return True
    _log.warning("a Triton kernel is not used: it differs from torch's operations by %.1e", difference)
    return False
