"""`python -m tests.support.emulated_cuda -m tpnet_dist.doctor --ranks 2`: Python with four emulated GPUs, in
this process and in all that it starts."""

import os
import sys
from pathlib import Path

from tests.support.emulated_cuda.library import ROOT

AT_START = Path(__file__).with_name("at_start")


def environment() -> dict[str, str]:
    """In which Python finds GPUs."""
    before = os.environ.get("PYTHONPATH", "")
    paths = [str(AT_START), str(ROOT), *([before] if before else [])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
