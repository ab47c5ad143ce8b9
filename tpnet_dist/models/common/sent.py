"""What a model decides on the host goes to its device, and nobody waits for it."""

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return it on the device. A copy from memory that a GPU cannot read by itself would wait until the GPU
    has done all it was told to, so it goes through memory that it can."""
    if tensor.device == device:
        return tensor
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
