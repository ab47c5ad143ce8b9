"""What torch.cuda answers where the device is emulated."""

import threading
from types import SimpleNamespace
from typing import Any

import torch
import torch.profiler
from torch import Tensor

from tests.support.emulated_cuda import nccl, streams
from tests.support.emulated_cuda.device import EmulatedDevice
from tests.support.emulated_cuda.library import loaded

NUM_DEVICES = 4
BYTES = 24 << 30
CAPABILITY = (8, 6)


class _NoGrad(torch.no_grad):
    """For `inference_mode`, which wrapped tensors do not know."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._is_on = mode

    def __enter__(self) -> None:
        if self._is_on:
            super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        if self._is_on:
            super().__exit__(*raised)


class _HostProfile(torch.profiler.profile):
    """Traces the host alone: tracing a device takes a CUDA build, and each operation complains without."""

    def __init__(self, *, activities: Any = None, **kwargs: Any) -> None:
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **kwargs)


def install() -> EmulatedDevice:
    """Emulate the devices in this process; return the mode of its main thread, which is to be entered."""
    torch.inference_mode = _NoGrad  # type: ignore[misc,assignment]
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    _answer()
    torch.profiler.profile = _HostProfile  # type: ignore[misc]
    nccl.install()
    _enter_in_threads()
    return EmulatedDevice()


def _answer() -> None:
    cuda: Any = torch.cuda
    device = loaded()
    cuda.Stream, cuda.Event, cuda.stream = streams.Stream, streams.Event, streams.stream
    cuda.current_stream, cuda.default_stream = streams.current_stream, lambda device=None: streams.DEFAULT
    cuda._lazy_init = cuda.empty_cache = cuda.init = lambda: None
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: NUM_DEVICES
    cuda.current_device = lambda: device.current_device()
    cuda.set_device = lambda chosen: device.set_device(_index(chosen))
    cuda.synchronize = lambda device=None: streams.synchronize()
    properties = SimpleNamespace(
        total_memory=BYTES,
        name="emulated",
        multi_processor_count=82,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
    )
    cuda.get_device_properties = lambda device=None: properties
    cuda.get_device_name = lambda device=None: properties.name
    cuda.get_device_capability = lambda device=None: CAPABILITY
    cuda.is_bf16_supported = lambda *_, **__: True
    cuda.mem_get_info = lambda device=None: (BYTES, BYTES)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(cuda, name, lambda device=None: 0)
    cuda.reset_peak_memory_stats = lambda device=None: None
    cuda.memory_stats = lambda device=None: {}
    cuda.get_rng_state = lambda device=None: torch.zeros(16, dtype=torch.uint8)
    cuda.set_rng_state = lambda state, device=None: None
    cuda.can_device_access_peer = lambda device, peer: device != peer
    cuda.nvtx.range_push = cuda.nvtx.range_pop = cuda.nvtx.mark = lambda *_: None
    cuda.amp.common.amp_definitely_not_available = lambda: False
    Tensor.pin_memory = lambda self, device=None: torch.ops.aten._pin_memory(self)  # type: ignore[assignment,method-assign]


def _index(chosen: Any) -> int:
    index = chosen if isinstance(chosen, int) else torch.device(chosen).index
    if index is None:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{chosen}")
    return int(index)


def _enter_in_threads() -> None:
    """The mode is a thread's own."""
    run = threading.Thread.run

    def run_on_device(self: threading.Thread) -> None:
        with EmulatedDevice():
            run(self)

    threading.Thread.run = run_on_device  # type: ignore[method-assign]
