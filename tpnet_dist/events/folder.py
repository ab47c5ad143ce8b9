"""A data folder appears complete or not at all: it is written aside under a lock, then renamed."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import MANIFEST_NAME


@contextmanager
def staged_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `target`; it becomes `target` if the body succeeds, else it goes.

    A killed run leaves only the staging folder, whose name is fixed, so the repeated run clears it.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.partial")
    with _only_writer(target):
        _bring_back_replaced(target)
        _refuse_to_lose_files(target, overwrite)
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
            _put_in_place(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_to_lose_files(target: Path, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{target}: output folder exists already; choose another or pass --overwrite")
    if not (target / MANIFEST_NAME).is_file():
        raise InputError(
            f"{target}: --overwrite replaces data folders only and this has no {MANIFEST_NAME}; "
            "remove it yourself or choose another folder"
        )


@contextmanager
def _only_writer(target: Path) -> Iterator[None]:
    """Hold a lock that dies with the process, so two runs never write one folder."""
    path = target.with_name(f".{target.name}.lock")
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = path.exists() and path.stat().st_ino == os.fstat(lock.fileno()).st_ino
        except BlockingIOError:
            is_current = False
        if not is_current:  # held by another run, or just let go and removed by it
            raise InputError(
                f"{target}: another process is writing this folder; wait for it or choose another folder"
            )
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _replaced_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _bring_back_replaced(target: Path) -> None:
    """Undo a replacement that was killed between its two renames."""
    replaced = _replaced_name(target)
    if replaced.exists() and not target.exists():
        replaced.rename(target)


def _put_in_place(staging: Path, target: Path) -> None:
    """Rename; an existing folder steps aside first and is removed last."""
    replaced = _replaced_name(target)
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        target.rename(replaced)
    staging.rename(target)
    _sync(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
