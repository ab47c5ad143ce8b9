"""The largest resident set this process had."""

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Of this process alone: what `getrusage` says may be that of the process which started it."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    [kib] = [line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(kib) * 1024
