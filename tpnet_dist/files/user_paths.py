"""Paths as users give them: links followed, without a traceback for those that lead in circles; and what must
be a file, since it is read more than once, or by every rank."""

import os
import stat
from pathlib import Path

from tpnet_dist.errors import InputError


def resolved(path: Path | str) -> Path:
    """The absolute path behind all links; one that leads in a circle stays, and opening it says so."""
    return Path(os.path.realpath(path))


def require_file(path: Path, what: str) -> None:
    """InputError for a pipe or a device, at which a process might wait for ever; what is not there, or is a
    folder, is refused where it is opened. `what`: what a file is wanted for, such as `settings`."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{path}: is a pipe or a device, but {what} are read from a file; write them into one"
        )


def read_settings(path: Path, kind: str) -> bytes:
    """Return the content of a file of settings; InputError where it cannot be read. `kind`: what it is, such
    as `TOML file`."""
    require_file(path, "settings")
    try:
        return path.read_bytes()
    except OSError as error:
        wrong = error.strerror
        if isinstance(error, FileNotFoundError) and path.is_symlink():
            wrong = f"is a link to {path.readlink()}, which does not exist"
        raise InputError(f"{path}: {wrong}; give the path of a {kind}") from error
