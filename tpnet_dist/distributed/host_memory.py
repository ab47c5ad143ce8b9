"""Requests to the operating system about host memory, where it knows them."""

import ctypes
import mmap
import sys
from pathlib import Path

import torch
from torch import Tensor

from tpnet_dist.distributed.memory_limit import bytes_within_limit

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT_BYTES = 1 << 30


def keep_large_buffers() -> bool:
    """Let malloc keep freed buffers of up to a GiB for the next batch instead of giving them back.

    A buffer that comes from the kernel anew costs a page fault per 4 KiB, which for large ones is more than
    the work done in them. For the whole process; call it once at the start.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES), mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    return all(kept)


def release_pages(tensor: Tensor) -> None:
    """Give back the memory of a contiguous CPU tensor whose values are of no use any more; writing to it
    takes memory anew."""
    _advise(tensor, mmap.MADV_DONTNEED)


def ask_for_huge_pages(fresh: Tensor) -> Tensor:
    """Have a large CPU tensor, not yet written to, lie on huge pages; returns it.

    Rows are read and written at random: on 4 KiB pages each costs a walk through the page table as well.
    """
    _advise(fresh, mmap.MADV_HUGEPAGE)
    return fresh


def _advise(tensor: Tensor, advice: int) -> None:
    """Give the system advice about the whole pages of a tensor."""
    if sys.platform != "linux" or tensor.device.type != "cpu":
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (tensor.data_ptr() + tensor.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), ctypes.c_int(advice))


def free_bytes(device: torch.device) -> int:
    """Return how many bytes a device, or the host, could still give; a large number where nobody can tell."""
    if device.type == "cuda":
        # what torch keeps for later of what nobody uses any more
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    # in a container or a job the host may have more than this process may take
    return min(_available_bytes(), bytes_within_limit())


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return sys.maxsize
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib[0] * 1024 if kib else sys.maxsize
