"""What a container or a job may still take of its host's memory, by the limits of its cgroups."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Hierarchy:
    """Holds the names by which a version of cgroups tells of memory."""

    folder: str
    limit: str
    usage: str
    reclaimable: str
    """The key in memory.stat that counts pages of files, groups below included; the kernel gives these back
    when asked."""


_SECOND = _Hierarchy("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
_FIRST = _Hierarchy(
    "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)


def bytes_within_limit(root: Path = Path("/")) -> int:
    """Return the least that a group of this process, or one above it, leaves; a large number without
    limits."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return sys.maxsize
    left = [sys.maxsize]
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0":
            left += _left_in(root, _SECOND, group)
        elif "memory" in controllers.split(","):
            left += _left_in(root, _FIRST, group)
    return min(left)


def _left_in(root: Path, names: _Hierarchy, group: str) -> list[int]:
    """Return what the group and each above it leave; a container may see its own group as the topmost."""
    top = root / names.folder
    below = top / group.lstrip("/")
    folders = [below, *(above for above in below.parents if above.is_relative_to(top))]
    return [left for folder in folders if (left := _left_of(folder, names)) is not None]


def _left_of(folder: Path, names: _Hierarchy) -> int | None:
    """Return what the group leaves; None where there is no limit, or nobody can tell."""
    try:
        limit, usage = ((folder / name).read_text().strip() for name in (names.limit, names.usage))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    if limit == "max":
        return None
    return max(0, int(limit) - int(usage) + int(stat.get(names.reclaimable, 0)))
