"""The largest resident set this process had."""

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the peak of this process alone: what `getrusage` says may be that of the process which started
    it."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    # not every system tells
    return 1024 * (peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
