"""A data folder appears complete or not at all: it is written aside under a lock, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tpnet_dist.errors import OUT_OF_SPACE, InputError
from tpnet_dist.events.file_records import is_added_file, is_data_file
from tpnet_dist.events.manifest import MANIFEST_NAME, is_manifest, read_manifest
from tpnet_dist.files.atomic_write import sync_file, sync_folder
from tpnet_dist.files.folder_lock import folder_lock
from tpnet_dist.files.user_paths import resolved


@contextmanager
def staged_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `target`; it becomes `target` if the body succeeds, else it goes.

    A killed run leaves only the staging folder, whose name is fixed, so the repeated run clears it.
    """
    target = _checked_name(target)
    staging = target.with_name(f".{target.name}.partial")
    with _parents_of(target), folder_lock(target) as is_repeated, _full_disk_named(target):
        _bring_back_replaced(target)
        _refuse_to_lose_files(target, overwrite)
        _clear(staging, is_ours=is_repeated)
        if target.exists():
            # a replacement that was killed when it was done
            replaced = _replaced_name(target)
            _clear(replaced, is_ours=is_repeated or is_manifest(replaced / MANIFEST_NAME))
        try:
            staging.mkdir()
            yield staging
            _put_in_place(staging, target)
        finally:
            _bring_back_replaced(target)
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def grown_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside a data folder; if the body succeeds, the files it holds are added to the
    data folder, and last of all its manifest replaces the one that is there.

    Until then the folder is what it was: files that a killed run has added are in no manifest, and the
    repeated run removes them.
    """
    target = _checked_name(target)
    if not target.parent.is_dir():
        raise InputError(f"{target}: no such data folder; make one with `python -m data_prep convert`")
    staging = target.with_name(f".{target.name}.partial")
    with folder_lock(target) as is_repeated, _full_disk_named(target):
        _bring_back_replaced(target)
        _clear(staging, is_ours=is_repeated)
        _remove_unlisted(target)
        try:
            staging.mkdir()
            yield staging
            if (staging / MANIFEST_NAME).exists():
                _add_files(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def staged_file(target: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a file beside `target` that takes its place if the body succeeds, else goes."""
    target = _checked_name(target)
    staging = target.with_name(f".{target.name}.partial")
    with _parents_of(target), folder_lock(target) as is_repeated, _full_disk_named(target):
        if target.is_dir():
            raise InputError(f"{target}: is a folder where a file is wanted; give a file name")
        if target.exists() and not overwrite:
            raise InputError(f"{target}: output file exists already; choose another or pass --overwrite")
        _clear(staging, is_ours=is_repeated)
        try:
            with staging.open("wb") as file:
                yield file
            staging.replace(target)
        finally:
            staging.unlink(missing_ok=True)


def _clear(staging: Path, *, is_ours: bool) -> None:
    """Remove what a killed run left."""
    if not is_ours and os.path.lexists(staging):
        raise InputError(
            f"{staging}: lies where this is to be made, and no run of ours left it; move it away"
        )
    if staging.is_dir() and not staging.is_symlink():
        shutil.rmtree(staging)
    else:
        staging.unlink(missing_ok=True)


def _checked_name(target: Path) -> Path:
    found = resolved(target)
    if found.is_symlink():
        raise InputError(f"{target}: is a link that leads in a circle; choose another path")
    if not found.name:
        raise InputError(f"{target}: cannot be an output; give a path with a name")
    return found


@contextmanager
def _parents_of(target: Path) -> Iterator[None]:
    """Make missing parents; take them away again if nothing came of it."""
    missing = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if not target.exists():
            for parent in missing:
                parent.rmdir()


@contextmanager
def _full_disk_named(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in OUT_OF_SPACE:
            raise
        raise InputError(
            f"{target}: no space left to write it ({error.strerror}); free some or choose another place"
        ) from error


def _refuse_to_lose_files(target: Path, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{target}: output folder exists already; choose another or pass --overwrite")
    if foreign := _foreign_files(target):
        raise InputError(
            f"{target}: --overwrite replaces data folders only, and {foreign} is no part of one; "
            "remove it yourself or choose another folder"
        )


def _foreign_files(target: Path) -> str | None:
    """Return the name of something in the folder that we did not write."""
    if not target.is_dir():
        return target.name
    ours = {MANIFEST_NAME} if is_manifest(target / MANIFEST_NAME) else set()
    for path in sorted(target.iterdir()):
        if path.name not in ours and not (ours and is_data_file(path.name)):
            return path.name
    return None


def _remove_unlisted(target: Path) -> None:
    """Remove data files that an append had added when it was killed."""
    listed = {record.file for record in read_manifest(target).files()}
    for path in target.iterdir():
        if is_added_file(path.name) and path.name not in listed:
            path.unlink()


def _add_files(staging: Path, target: Path) -> None:
    """Move the files, the manifest last: with it the new files belong to the folder, all at once."""
    files = sorted(staging.iterdir(), key=lambda path: (path.name == MANIFEST_NAME, path.name))
    for file in files:
        sync_file(file)
    for file in files:
        if file.name == MANIFEST_NAME:
            sync_folder(target)
        file.replace(target / file.name)
    sync_folder(target)


def _replaced_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _bring_back_replaced(target: Path) -> None:
    """Undo a replacement that was killed between its two renames."""
    replaced = _replaced_name(target)
    if not target.exists() and is_manifest(replaced / MANIFEST_NAME):
        replaced.rename(target)


def _put_in_place(staging: Path, target: Path) -> None:
    """Rename the staging folder; an existing folder steps aside first and is removed last."""
    replaced, is_replacement = _replaced_name(target), target.exists()
    if is_replacement:
        target.rename(replaced)
    staging.rename(target)
    sync_folder(target.parent)
    if is_replacement:
        shutil.rmtree(replaced, ignore_errors=True)
