"""The C++ part: compiled with the system's compiler on first use, and loaded before torch is imported.

Autograd asks for devices when torch is loaded, and ends the process if their guard comes later.
"""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("cuda_backend.cpp")
COMPILERS = ("c++", "g++", "clang++")


def compiler() -> str | None:
    """Return the C++ compiler of this machine, if it has one."""
    return os.environ.get("CXX") or next(filter(shutil.which, COMPILERS), None)


def compiled() -> Path:
    """Return the library; compile it if this source has not been, for this torch."""
    version = importlib.metadata.version("torch")
    key = hashlib.sha256(SOURCE.read_bytes() + version.encode()).hexdigest()[:16]
    library = ROOT / "build" / "emulated_cuda" / f"cuda_backend-{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        aside = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*_command(), "-o", str(aside)], check=True, capture_output=True)
        aside.replace(library)
    return library


def _command() -> list[str]:
    found = importlib.util.find_spec("torch")
    program = compiler()
    assert found is not None and found.origin is not None and program is not None
    torch = Path(found.origin).parent
    return [
        *(program, "-shared", "-fPIC", "-O1", "-std=c++20", str(SOURCE)),
        *(f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"),
        *(f"-L{torch}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib"),
    ]


@cache
def loaded() -> ctypes.CDLL:
    """Load it; torch must not have been imported before."""
    library = ctypes.CDLL(str(compiled()), mode=ctypes.RTLD_GLOBAL)
    library.install_guard()
    return library
