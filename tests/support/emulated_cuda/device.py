"""Tensors that say they lie on a CUDA device, and compute on the host.

A subclass wraps a tensor of the host; the mode makes factories give such tensors where a CUDA device is asked
for. It must be entered in every thread, see `torch_cuda`.
"""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.cuda._sanitizer import FACTORY_FUNCTION_REGEX
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.support.emulated_cuda import streams
from tests.support.emulated_cuda.library import loaded
from tests.support.emulated_cuda.operation_log import ELSEWHERE, LOG, caller, thread_name

aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
WAITS = {
    aten._local_scalar_dense.default: "a number is read",
    aten.is_nonzero.default: "a number is read",
    aten.equal.default: "a number is read",
    aten.nonzero.default: "the size of nonzero",
    aten.masked_select.default: "the size of masked_select",
    aten._unique2.default: "the size of unique",
    aten.unique_dim.default: "the size of unique",
    aten.unique_consecutive.default: "the size of unique",
}
INDEXING = {
    aten.index.Tensor: 1,
    aten.index_put.default: 1,
    aten.index_put_.default: 1,
    aten._index_put_impl_.default: 1,
    aten._unsafe_index.Tensor: 1,
}
NO_KERNEL = ("aten::empty", "aten::new_empty", "aten::detach", "aten::alias", "aten::_unsafe_view",
             "aten::lift_fresh", "aten::is_pinned", "aten::_reshape_alias")  # fmt: skip

pinned: dict[int, Tensor] = {}
"""Memory of the host that copies need not wait for, by address; kept, as CUDA keeps it for later."""


class MixedDevicesError(RuntimeError):
    """A kernel gets tensors of the host and of a device."""


class EmulatedTensor(Tensor):
    """Says it lies on a device; `inner` lies on the host."""

    inner: Tensor
    block: streams.Block | None

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> "EmulatedTensor":
        assert not isinstance(inner, EmulatedTensor)
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=device,
            requires_grad=False,
        )
        made.inner, made.block = inner, streams.block_of(inner)
        return made  # type: ignore[no-any-return]

    def __repr__(self, **_: Any) -> str:
        return f"EmulatedTensor({tuple(self.shape)}, {self.dtype}, {self.device})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        LOG.wait("a tensor is saved")
        return self.inner.detach().__reduce_ex__(protocol)

    @property
    def data(self) -> Tensor:
        return Tensor.data.__get__(self)  # type: ignore[attr-defined,no-any-return]

    @data.setter
    def data(self, other: "EmulatedTensor") -> None:
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]
        self.inner, self.block = other.inner, other.block

    def record_stream(self, stream: Any) -> None:
        if self.block is not None:
            self.block.recorded.add(stream.stream_id)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class EmulatedDevice(TorchDispatchMode):
    """Has factories make emulated tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    emulated = [leaf for leaf in leaves if isinstance(leaf, EmulatedTensor)]
    if func.namespace == "c10d":
        from tests.support.emulated_cuda.nccl import collective

        return collective(func, args, kwargs, emulated, leaves)
    asked = kwargs.get("device")
    if not emulated and (asked is None or torch.device(asked).type != "cuda"):
        return _on_host(func, args, kwargs)
    if asked is not None and torch.device(asked).type == "meta":
        return func(*tree_map_only(EmulatedTensor, lambda each: each.inner, args), **kwargs)
    if func is aten.record_stream.default:
        args[0].record_stream(args[1])
        return None
    if func is aten._pin_memory.default:
        raise RuntimeError("memory of a device cannot be pinned")
    target = _target(func, args, asked, emulated)
    if func not in COPIES:
        _require_one_device(func, leaves, target)
    out = _computed(func, args, kwargs)
    _note(func, args, kwargs, emulated, out, target)
    if target.type == "cpu" or func is aten._local_scalar_dense.default:
        return args[0] if func is aten.copy_.default else out
    LOG.devices.add(target.index)
    wrapped = tree_map_only(Tensor, lambda inner: EmulatedTensor(inner, target), out)
    wrapped = return_and_correct_aliasing(func, args, kwargs, wrapped) if emulated else wrapped
    _note_uses(func, args, kwargs, wrapped)
    return wrapped


def _on_host(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    if not kwargs.get("pin_memory") and func is not aten._pin_memory.default:
        if func is aten.is_pinned.default:
            return _is_pinned(args[0])
        return func(*args, **kwargs)
    if func is aten._pin_memory.default:
        out = args[0].clone(memory_format=torch.contiguous_format)
    else:
        out = func(*args, **{**kwargs, "pin_memory": False})
    pinned[out.untyped_storage().data_ptr()] = out
    # memory is pinned through the context of the thread's device
    LOG.devices.add(loaded().current_device())
    return out


def _is_pinned(tensor: Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() in pinned


def _target(func: OpOverload, args: Any, asked: Any, emulated: list[EmulatedTensor]) -> torch.device:
    """Where the result lies."""
    if func is aten.copy_.default:
        device: torch.device = args[0].device
    elif asked is not None:
        device = torch.device(asked)
    else:
        device = emulated[0].device
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", loaded().current_device())
    return device


def _require_one_device(func: OpOverload, leaves: list[Tensor], target: torch.device) -> None:
    """A kernel takes numbers of the host, and indices, which are copied while the host waits."""
    for leaf in leaves:
        if leaf.device == target or (leaf.device.type == "cpu" and leaf.dim() == 0):
            continue
        if leaf.device.type == "cpu" and func in INDEXING:
            LOG.wait("an index of the host")
            continue
        if target.type == "cpu" and leaf.dim() == 0:
            continue
        problem = f"mixed devices: {func} takes {tuple(leaf.shape)} on {leaf.device} and works on {target}"
        LOG.problem(problem)
        raise MixedDevicesError(f"{problem}, {caller()}")


def _computed(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    inner_args, inner_kwargs = tree_map_only(EmulatedTensor, lambda each: each.inner, (args, kwargs))
    if inner_kwargs.get("device") is not None:
        inner_kwargs["device"] = torch.device("cpu")
    if "pin_memory" in inner_kwargs:
        inner_kwargs["pin_memory"] = False
    if func is not aten._to_copy.default:
        return func(*inner_args, **inner_kwargs)
    [source] = inner_args
    out = source.to(inner_kwargs.get("dtype") or source.dtype, copy=True)
    wanted = inner_kwargs.get("memory_format")
    return out.contiguous() if wanted is torch.contiguous_format else out


def _note(
    func: OpOverload,
    args: Any,
    kwargs: dict[str, Any],
    emulated: list[EmulatedTensor],
    out: Any,
    target: torch.device,
) -> None:
    """Count what the operation costs."""
    if func in COPIES:
        source = args[1] if func is aten.copy_.default else args[0]
        if source.device.type != target.type:
            _note_transfer(source, args[0] if func is aten.copy_.default else out, func, args, kwargs, target)
            return
        if source.device != target:
            LOG.problem(f"memory goes from {source.device} to {target}")
    name = func._schema.name
    if reason := WAITS.get(func):
        LOG.wait(reason)
    elif func in INDEXING and any(_is_mask(index) for index in args[1]):
        LOG.wait("the size of what a mask chooses")
    elif func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None:
        LOG.wait("the size of repeat_interleave")
    if target.type == "cuda" and not func.is_view and not name.startswith(NO_KERNEL):
        LOG.kernel(str(func).removeprefix("aten."))


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _note_transfer(
    source: Tensor, destination: Tensor, func: OpOverload, args: Any, kwargs: Any, target: torch.device
) -> None:
    """Between host and device: without waiting only from and to pinned memory."""
    is_async = kwargs.get("non_blocking", False) or (
        func is aten.copy_.default and len(args) > 2 and bool(args[2])
    )
    if not source.numel():
        return
    if thread_name() == "backward" and caller() == ELSEWHERE:
        # data parallelism scales a gradient into its bucket: one kernel, counted as such, which only here has
        # the look of a copy as well
        return
    if target.type == "cpu":
        if not (is_async and _is_pinned(destination)):
            LOG.wait("a copy to the host")
    elif not is_async:
        LOG.wait("a copy to the device")
    elif not _is_pinned(source):
        LOG.wait("a copy to the device of memory that is not pinned")
    else:
        LOG.copy()


def _note_uses(func: OpOverload, args: Any, kwargs: dict[str, Any], out: Any) -> None:
    """Which memory is read and written."""
    if func.is_view:
        return
    is_factory = bool(FACTORY_FUNCTION_REGEX.match(func._schema.name))
    read, written = [], []
    values = {**dict(zip((each.name for each in func._schema.arguments), args, strict=False)), **kwargs}
    for argument in func._schema.arguments:
        blocks = _blocks(values.get(argument.name))
        if argument.alias_info is not None and argument.alias_info.is_write:
            written += blocks
        elif not is_factory:
            read += blocks
    if func._schema.name.startswith(NO_KERNEL):
        return
    streams.note_kernel(func._schema.name, read, written + _blocks(out))


def _blocks(value: Any) -> list[streams.Block | None]:
    if isinstance(value, EmulatedTensor):
        return [value.block]
    if isinstance(value, (list, tuple)):
        return [each.block for each in value if isinstance(each, EmulatedTensor)]
    return []
