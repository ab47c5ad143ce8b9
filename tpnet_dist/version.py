"""`tpnet version`: versions of what is installed, and which devices there are; for questions and reports."""

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from tpnet_dist.errors import InputError, errors_for_people

PROGRAM = "python -m tpnet_dist.version"
PACKAGES = ("torch", "numpy", "numba", "polars", "pyarrow", "deepspeed", "triton")


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        unknown = [arg for arg in sys.argv[1:] if arg not in ("--json", "--debug")]
        if unknown and unknown[0] not in ("-h", "--help"):
            raise InputError(f"{unknown[0]}: version takes nothing but --json; leave it away")
        if unknown:
            print(f"usage: tpnet version [--json]\n\n{__doc__}")
            return
        found = versions()
        if "--json" in sys.argv:
            print(json.dumps(found, indent=2))
        else:
            print("\n".join(f"{name} {said}" for name, said in found.items()))


def versions() -> dict[str, str]:
    """Return what is installed, by name; `devices` last."""
    found = {"tpnet_dist": _version("tpnet-dist"), "python": platform.python_version()}
    found |= {name: _version(name) for name in PACKAGES}
    found["platform"] = f"{platform.system()} {platform.machine()}"
    return {**found, "devices": _devices()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    import torch  # takes seconds

    if not torch.cuda.is_available():
        return f"CPU, {torch.get_num_threads()} threads"
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


if __name__ == "__main__":
    main()
