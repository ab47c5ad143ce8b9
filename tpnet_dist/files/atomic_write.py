"""A small file appears whole or not at all, also when the machine stops."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Yield a file beside `path` that takes its place if the body succeeds; its folder must exist. Errors of
    the disk name the file."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Make a file's content, as it is now, outlast a machine that stops."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a folder's names, as they are now, outlast a machine that stops."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
