"""`training.compile`: the model's training step by `torch.compile`, with CUDA graphs or without.

The compiler looks at the dense part alone: what is gathered by position is gathered before. Numbers of
events, slots and tokens are symbols, so one compilation serves all batches; slots come in few numbers, since
a CUDA graph is kept for each. Scoring without learning stays as it is.
"""

from importlib.util import find_spec

import torch
import torch.fx.experimental._config
from torch import nn

from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.errors import InputError


def check_compile(config: TrainingConfig, device_type: str) -> None:
    """Refuse what cannot work on this device or with this engine."""
    wanted = config.compile
    if wanted == "off":
        return
    setting = f"training.compile is {wanted}"
    if wanted == "reduce-overhead":
        if device_type == "cpu":
            raise InputError(f"{setting}, but CUDA graphs need a GPU and this is a CPU; use default")
        if config.engine == "deepspeed":
            # it keeps gradients that the next graph overwrites
            raise InputError(f"{setting}, but DeepSpeed cannot train with CUDA graphs; use default, or ddp")
    if device_type == "cuda" and find_spec("triton") is None:
        raise InputError(f"{setting}, but torch compiles for GPUs by Triton; pip install triton, or use off")
    if device_type == "cpu" and not _has_host_compiler():
        raise InputError(f"{setting}, but there is no C++ compiler to compile with; install g++, or use off")


def _has_host_compiler() -> bool:
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


def compiled(model: nn.Module, config: TrainingConfig) -> nn.Module | None:
    """Return the model as compiled code, which the first batch compiles; None: it is not to be."""
    if config.compile == "off":
        return None
    # numbers that happen to be equal in the first batch are not in the next
    torch.fx.experimental._config.use_duck_shape = False
    mode = None if config.compile == "default" else config.compile
    # weights have one shape, batches many
    made: nn.Module = torch.compile(model, mode=mode, dynamic=True)  # type: ignore[assignment]
    return made
