"""Run what `python ARGS…` would run, in this process, and leave the peak of its memory in a file.

    python -m benchmarks.own_peak FILE -m MODULE [ARGUMENT …]
    python -m benchmarks.own_peak FILE -c CODE

The system tells whoever waits for a process a peak too, but one that may be of the process that started it:
only the process itself can tell its own.
"""

import runpy
import sys
from pathlib import Path

from tpnet_dist.distributed.peak_memory import peak_bytes


def main() -> None:
    _, file, kind, what, *args = sys.argv
    try:
        if kind == "-m":
            sys.argv = [what, *args]
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            assert kind == "-c", f"{kind}: a module or code is run"
            sys.argv = [kind, *args]
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        Path(file).write_text(str(peak_bytes()))


if __name__ == "__main__":
    main()
