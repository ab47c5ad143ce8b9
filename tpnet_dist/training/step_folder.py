"""A checkpoint as a folder, `step-N/`: tensors by torch.distributed.checkpoint, and a manifest written last.

Complete or absent: it is written aside, then renamed. The manifest holds the checksums of all files, so
that what a disk did to them later is noticed too; everything that is no tensor stands in it, as JSON.

Every rank holds the same tensors, and the first writes them: other hosts need not see the folder.

torch.distributed.checkpoint is imported where it is used: that takes half as long as torch itself, and
predictions and evaluations read weights alone.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError, lacks_memory
from tpnet_dist.files.atomic_write import atomic_write, sync_folder
from tpnet_dist.files.stored_json import parse_json
from tpnet_dist.training.content_digest import is_intact, sealed

if TYPE_CHECKING:
    from tpnet_dist.training.step_metadata import StepReader

FORMAT = 1
MANIFEST_NAME = "manifest.json"
ASIDE_PREFIX, ASIDE_SUFFIX = ".step-", ".partial"


class DamagedCheckpoint(Exception):
    """Raised for a checkpoint that is not whole; the message says what is wrong."""


def write_step(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], world: World) -> None:
    """Write a checkpoint; every rank must call it, with the same arguments."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    aside = path.with_name(f".{path.name}{ASIDE_SUFFIX}")
    world.on_first_rank(lambda: _make_empty(aside))
    try:
        save(
            dict(tensors),
            storage_writer=FileSystemWriter(aside),
            planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True),
            process_group=world.host_group,
        )
    except CheckpointException as failure:
        rank, (error, _) = next(iter(failure.failures.items()))
        raise InputError(
            f"{path}: rank {rank} cannot write it: {error}; free some space or choose another --run-dir"
        ) from failure
    world.on_first_rank(lambda: _complete(aside, path, facts))
    if world.rank:
        # on hosts that do not see the first rank's folder each save makes an empty one
        with suppress(OSError):
            aside.rmdir()


def read_facts(path: Path) -> dict[str, Any]:
    """Return what the manifest says, after comparing it and every file with their checksums; raise
    DamagedCheckpoint."""
    try:
        for found in path.iterdir():
            # one would wait for ever at a pipe
            if not (found.is_file() or found.is_dir()):
                raise DamagedCheckpoint(f"{found.name} is no file")
        facts: dict[str, Any] = parse_json((path / MANIFEST_NAME).read_bytes())
        if facts["format"] != FORMAT:
            raise DamagedCheckpoint(f"it has format {facts['format']}, and this version reads {FORMAT}")
        if not is_intact(facts):
            raise DamagedCheckpoint(f"{MANIFEST_NAME} is damaged")
        files: dict[str, dict[str, Any]] = facts["files"]
        for name, record in files.items():
            if Path(name).name != name:
                raise DamagedCheckpoint(f"{MANIFEST_NAME} names {name!r}, which is outside its folder")
            if _record(path / name) != record:
                raise DamagedCheckpoint(f"{name} is damaged")
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{Path(error.filename).name} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{MANIFEST_NAME} is not readable") from error
    return facts


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a whole checkpoint, in this process alone; raise DamagedCheckpoint. No code in it
    is run."""
    from torch.distributed.checkpoint.api import CheckpointException

    from tpnet_dist.training.step_metadata import METADATA_NAME, StepReader, UnsafePickle

    try:
        return _tensors_of(StepReader(path))
    except UnsafePickle as error:
        raise DamagedCheckpoint(
            f"{METADATA_NAME} {error}, where tensors alone may be described, so nothing of it was taken"
        ) from error
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{METADATA_NAME} is missing") from error
    except OSError:
        raise
    except (Exception, CheckpointException) as error:  # what a damaged pickle leads to, nobody can tell
        if isinstance(error, Exception) and lacks_memory(error):
            raise
        raise DamagedCheckpoint("its tensors are not readable") from error


def _tensors_of(reader: "StepReader") -> dict[str, Tensor]:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in reader.metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it reads in one process, as it was told to
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _complete(aside: Path, path: Path, facts: Mapping[str, Any]) -> None:
    files = {file.name: _record(file) for file in sorted(aside.iterdir())}
    with atomic_write(aside / MANIFEST_NAME) as manifest:
        manifest.write(json.dumps(sealed({"format": FORMAT, **facts, "files": files}), indent=1).encode())
    # only one that could not be read can be in its place
    shutil.rmtree(path, ignore_errors=True)
    aside.rename(path)
    sync_folder(path.parent)


def _record(file: Path) -> dict[str, Any]:
    with file.open("rb") as content:
        return {"bytes": file.stat().st_size, "sha256": hashlib.file_digest(content, "sha256").hexdigest()}
