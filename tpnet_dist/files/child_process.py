"""Processes that do not outlive the one that started them."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def ends_with_parent() -> None:
    """Have this process told by SIGTERM when its parent has gone, however that was; to be called in the child
    before it becomes another program. Only Linux can do so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
