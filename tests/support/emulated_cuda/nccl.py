"""Process groups called nccl that are gloo, and what NCCL would refuse, or hang in.

A collective is a kernel on its group's stream, which waits for the caller's; who waits for it has the current
stream wait. Every collective of NCCL is logged, so that ranks can be compared.
"""

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.support.emulated_cuda import streams
from tests.support.emulated_cuda.device import EmulatedTensor
from tests.support.emulated_cuda.operation_log import LOG

_backends: dict[str, str] = {}
_streams: dict[str, streams.Stream] = {}
_last: dict[str, streams.Event] = {}
"""The event after the last collective of each group."""

SAME_ON_ALL_RANKS = ("allreduce", "broadcast", "allgather", "_allgather_base", "barrier")
ASYNC = ("all_to_all_single", "all_reduce", "all_gather", "all_gather_into_tensor", "broadcast")
OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")


def install() -> None:
    """Call it once, before any group is made."""
    dist.init_process_group = c10d.init_process_group = _making(dist.init_process_group)
    dist.new_group = c10d.new_group = _making(dist.new_group)
    c10d._get_object_coll_device = _object_device
    for name in OBJECTS:
        _wrap(name, _objects)
    for name in ASYNC:
        _wrap(name, _asynchronous)
    _stub_logger()


def _wrap(name: str, wrapper: Callable[[Any], Any]) -> None:
    wrapped = wrapper(getattr(dist, name))
    setattr(dist, name, wrapped)
    setattr(c10d, name, wrapped)


def _making(make: Callable[..., Any]) -> Callable[..., Any]:
    """Groups are gloo; remembers what they were asked to be."""

    @wraps(make)
    def made(*args: Any, backend: str | None = None, device_id: Any = None, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            backend, *args = args  # type: ignore[assignment]
        wanted = backend or _backends[_name(None)]
        if wanted == "nccl" and device_id is None:
            LOG.problem("a group of NCCL has no device_id: its communicator is made by whoever uses it first")
        group = make(*args, backend="gloo", **kwargs) or dist.group.WORLD
        _backends[group.group_name] = wanted
        if wanted == "nccl":
            stream = _streams[group.group_name] = streams.Stream(device_id)
            streams.exempt(stream)
        return group

    return made


def _name(group: Any) -> str:
    name: str = (group or dist.group.WORLD).group_name
    return name


def _is_nccl(group: Any) -> bool:
    return _backends.get(_name(group)) == "nccl"


def _object_device(group: Any = None) -> torch.device:
    return torch.device("cuda" if _is_nccl(group) else "cpu")


def _objects(collect: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(collect)
    def collected(*args: Any, group: Any = None, **kwargs: Any) -> Any:
        if _is_nccl(group):
            LOG.problem(f"objects travel over NCCL in {collect.__name__}")
        return collect(*args, group=group, **kwargs)

    return collected


class EmulatedWork:
    """Whoever waits has the current stream wait for the collective."""

    def __init__(self, work: Any, done: streams.Event) -> None:
        self._work, self._done = work, done

    def wait(self, *_: Any) -> bool:
        self._work.wait()
        self._done.wait()
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _asynchronous(collect: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(collect)
    def collected(*args: Any, group: Any = None, async_op: bool = False, **kwargs: Any) -> Any:
        found = collect(*args, group=group, async_op=async_op, **kwargs)
        if not _is_nccl(group):
            return found
        if async_op:
            return EmulatedWork(found, _last[_name(group)])
        _last[_name(group)].wait()
        return found

    return collected


def collective(
    func: Any, args: Any, kwargs: dict[str, Any], emulated: list[EmulatedTensor], leaves: list[Tensor]
) -> Any:
    """What torch's C++ hands to a backend."""
    group = next(
        ProcessGroup.unbox(leaf)  # type: ignore[attr-defined]
        for leaf in tree_leaves((args, kwargs))
        if isinstance(leaf, torch.ScriptObject) and "ProcessGroup" in str(leaf._type())
    )
    name = func._schema.name.removeprefix("c10d::").rstrip("_")
    if _backends.get(group.group_name) == "nccl":
        _launch(group.group_name, name, emulated, leaves)
    elif emulated:
        LOG.problem(f"tensors of the device travel over gloo in {name}")
    inner_args, inner_kwargs = tree_map_only(EmulatedTensor, lambda each: each.inner, (args, kwargs))
    out = func(*inner_args, **inner_kwargs)
    outer = {id(each.inner): each for each in emulated}
    return tree_map_only(Tensor, lambda each: outer.get(id(each), each), out)


def _launch(group: str, name: str, emulated: list[EmulatedTensor], leaves: list[Tensor]) -> None:
    if any(leaf.numel() and not isinstance(leaf, EmulatedTensor) for leaf in leaves):
        LOG.problem(f"a tensor of the host travels over NCCL in {name}")
    if any(each.numel() and not each.is_contiguous() for each in emulated):
        LOG.problem(f"a tensor that is not contiguous travels over NCCL in {name}")
    sizes = tuple(each.numel() for each in emulated) if name in SAME_ON_ALL_RANKS else ()
    LOG.collective(group, name, sizes)
    stream, ready, done = _streams[group], streams.Event(), streams.Event()
    ready.record()
    ready.wait(stream)
    # senders and receivers are not distinguished: both are in use until it is done
    streams.note_kernel(name, (), [each.block for each in emulated], on=stream)
    done.record(stream)
    _last[group] = done
    if not _is_awaited_later(name):
        done.wait()


def _is_awaited_later(name: str) -> bool:
    """What data parallelism launches has its own waits, in C++; all-to-alls of rows are left under way."""
    return name.startswith("alltoall")


def _stub_logger() -> None:
    """Data parallelism's logger asks for CUDA's clock, which this build of torch lacks."""
    construct = DistributedDataParallel.__init__

    def constructed(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        self.logger = _NoLogger()

    DistributedDataParallel.__init__ = constructed  # type: ignore[method-assign]


class _NoLogger:
    """Knows no times."""

    def __getattr__(self, name: str) -> Callable[..., SimpleNamespace]:
        return lambda *_, **__: SimpleNamespace(strs_map={}, ints_map={})
