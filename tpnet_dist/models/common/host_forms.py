"""Which form of a function serves: the one tuned for the host's speed, or the plain one.

Forms for the host save passes over memory with functions of their own for the backward pass, and more
operations for each. A GPU waits for every operation to be started, and a compiler fuses plain ones alone.
"""

import torch
from torch import Tensor


def serves_host(values: Tensor) -> bool:
    """Return whether the host's form serves: on the host, and not while `torch.compile` looks on."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
