"""Two processes never write one folder: a lock beside it, which dies with its holder."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tpnet_dist.errors import InputError


@contextmanager
def folder_lock(target: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of `target`, whose parent must exist; `patience`: seconds to wait for another holder."""
    path = target.with_name(f".{target.name}.lock")
    with _locked(path, patience) as has_lock:
        if not has_lock:
            raise InputError(
                f"{target}: another process is writing this folder; wait for it or choose another folder"
            )
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def is_locked(target: Path) -> bool:
    """Return whether a process writes this folder now; nothing is made or changed."""
    try:
        with target.resolve().with_name(f".{target.resolve().name}.lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@contextmanager
def _locked(path: Path, patience: float) -> Iterator[bool]:
    deadline = time.monotonic() + patience
    while True:
        with _opened(path) as lock:
            has_lock = _is_taken(path, lock)
            if has_lock or time.monotonic() >= deadline:
                yield has_lock
                return
        time.sleep(0.1)


def _opened(path: Path) -> TextIO:
    """Open the lock file, which holds nothing; whatever lies in its place is left as it is."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: the lock of this folder is a symbolic link; remove it") from error
        raise
    return os.fdopen(descriptor, "r+")


def _is_taken(path: Path, lock: TextIO) -> bool:
    """Return whether the lock is ours: not if another process holds it, or has just let it go and removed
    it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.stat().st_ino == os.fstat(lock.fileno()).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False
