"""Facts about a machine for a report: versions, cores, GPUs, and which of them reach one another."""

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.distributed as dist

from tpnet_dist.evaluation.results import release
from tpnet_dist.files.readable import readable_bytes

TOLD = ("CUDA_", "NCCL_", "GLOO_", "TORCH_NCCL_", "PYTORCH_", "OMP_NUM_THREADS", "SLURM_")
"""Variables of the environment, by how they begin, that change how ranks compute and meet."""


def facts_of_machine() -> dict[str, str]:
    """Return what is known of the machine, in the order of a report."""
    return {
        "system": f"{platform.platform()}, {_processor()}, {_cores()} cores, {_host_memory()}",
        "versions": _versions(),
        "environment": _environment() or "nothing set that matters",
        **_gpus(),
    }


def _versions() -> str:
    parts = [f"tpnet_dist {release()}", f"python {platform.python_version()}"]
    parts += [
        f"torch {torch.__version__}",
        f"triton {version('triton') if find_spec('triton') else 'absent'}",
    ]
    if torch.version.cuda is not None:
        parts.append(f"CUDA {torch.version.cuda}")
        if dist.is_nccl_available():
            parts.append("NCCL " + ".".join(map(str, torch.cuda.nccl.version())))  # type: ignore[no-untyped-call]
    return ", ".join(parts)


def _gpus() -> dict[str, str]:
    if not torch.cuda.is_available():
        return {"GPUs": "none that torch sees"}
    count = torch.cuda.device_count()
    facts = {f"GPU {number}": _gpu(number) for number in range(count)}
    if count > 1:
        facts["peer access"] = _peer_access(count)
    return facts


def _gpu(number: int) -> str:
    about = torch.cuda.get_device_properties(number)
    free, total = torch.cuda.mem_get_info(number)
    memory = f"{readable_bytes(total)}, {readable_bytes(free)} free"
    return (
        f"{about.name}, {memory}, capability {about.major}.{about.minor}, {about.multi_processor_count} SMs"
    )


def _peer_access(count: int) -> str:
    """Say which GPUs may write to one another; others go through the host."""
    reached = {
        (one, other)
        for one in range(count)
        for other in range(count)
        if one != other and torch.cuda.can_device_access_peer(one, other)
    }
    if len(reached) == count * (count - 1):
        return "every GPU reaches every other"
    if not reached:
        return "none: rows and gradients go through the host"
    return "only " + ", ".join(f"{one} → {other}" for one, other in sorted(reached))


def _environment() -> str:
    told = sorted(name for name in os.environ if name.startswith(TOLD))
    return ", ".join(f"{name}={os.environ[name]}" for name in told)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _host_memory() -> str:
    return readable_bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
