"""The line for machines that ends every benchmark: results, date, versions, commit and machine."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("torch", "numpy", "pyarrow", "polars")


def print_results_line(benchmark: str, results: Mapping[str, Any]) -> None:
    print(json.dumps({"benchmark": benchmark, "results": results, **_circumstances()}))


def _circumstances() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit_of_code(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "machine": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory_bytes(),
            "gpus": _gpu_names(),
            "system": platform.platform(),
        },
    }


def commit_of_code() -> str:
    """Return the commit; where files were changed since, with `-dirty-` and a hash of what they are now."""
    commit = _git("describe", "--always", "--dirty")
    if not commit.endswith("-dirty"):
        return commit or "unknown"
    new = _git("ls-files", "--others", "--exclude-standard").splitlines()
    changes = _git("diff", "HEAD") + _git("hash-object", *new)
    return f"{commit}-{hashlib.sha256(changes.encode()).hexdigest()[:7]}"


def hash_of_code(*places: str) -> str:
    """Return a hash of what these files, and all files within these folders, hold now, committed or not."""
    found = hashlib.sha256()
    for place in places:
        path = _ROOT / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        if not files:
            raise FileNotFoundError(f"{place}: there is no code of that name")
        for file in files:
            found.update(str(file.relative_to(_ROOT)).encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


def _git(*args: str) -> str:
    """Return what git prints; an empty text where this is no repository."""
    found = subprocess.run(["git", *args], cwd=_ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpu_names() -> list[str]:
    # most benchmarks have imported it anyway
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
