"""Forms of functions for GPUs: where Triton's kernels serve, and what is never rounded to TF32.

Triton's kernels serve on CUDA, once each has computed there what plain torch operations compute. CUDA builds
of torch bring Triton along, builds for the host do not. A kernel that does not compile or differs on a small
trial is left alone, and torch operations do its work.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

NEEDED_CAPABILITY = (7, 0)
"""The least compute capability that Triton compiles for: Volta and later."""
MOST_DIFFERENCE = 1e-5
"""The largest difference of a trial in float32, relative to its largest number."""

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


def let_products_use_tf32(wanted: bool) -> None:
    """Let float32 matrix products on GPUs round their factors to 10 bits, or keep them whole."""
    torch.backends.cuda.matmul.fp32_precision = "tf32" if wanted else "ieee"


@contextmanager
def in_full_float32() -> Iterator[None]:
    """Compute products of rows, whose norms reach 1e10, exactly to float32 also where others use TF32."""
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    if before != "tf32":
        yield
        return
    setting.fp32_precision = "ieee"
    try:
        yield
    finally:
        setting.fp32_precision = before
