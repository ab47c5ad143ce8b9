"""The `.metadata` of a checkpoint folder, which torch keeps as a pickle, read without running anything.

A pickle may name any function of any module and have it called. Here only what describes tensors may be
named; whatever else is refused before it is looked up.
"""

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    _MEM_FORMAT_ENCODING,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

METADATA_NAME = ".metadata"


class UnsafePickle(Exception):
    """Raised for a pickle that asks for more than it may; the message says what for."""


class StepReader(FileSystemReader):
    """Reads tensors `weights_only`, as torch's own reader does, but `.metadata` once, and with care."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.metadata = read_metadata(path / METADATA_NAME)

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        return self.metadata


def read_metadata(path: Path) -> Metadata:
    """Read metadata of tensors alone: torch would unpickle other entries without asking."""
    content = path.read_bytes()
    _require_bounded(content)
    metadata = _TensorsAlone(io.BytesIO(content)).load()
    if not isinstance(metadata, Metadata):
        raise UnsafePickle(f"holds a {type(metadata).__name__}")
    for name, entry in metadata.state_dict_metadata.items():
        # names are compared as text later, so that 5 might pass for "5"
        if type(name) is not str or type(entry) is not TensorStorageMetadata:
            raise UnsafePickle(f"holds a {type(entry).__name__} by the name {name!r}")
    for place in metadata.storage_data.values():
        if type(place) is not _StorageInfo or PurePath(place.relative_path).name != place.relative_path:
            raise UnsafePickle(
                f"names a file {getattr(place, 'relative_path', place)!r:.60}, outside its folder"
            )
    metadata.storage_meta = metadata.storage_meta or StorageMeta()
    return metadata


def _require_bounded(content: bytes) -> None:
    """Refuse a pickle that numbers a value beyond its own length: room would be made for all numbers below.
    Lengths that go beyond it are refused on the way."""
    for opcode, number, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= int(number or 0) <= len(content):
            raise UnsafePickle(f"numbers a value {number}")


class _TensorsAlone(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _ADMITTED:
            return _ADMITTED[module, name]
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        raise UnsafePickle(f"asks for {module}.{name}")


def _layout(name: str) -> torch.layout:
    if name != str(torch.strided):
        raise UnsafePickle(f"asks for tensors laid out as {name}")
    return torch.strided


_CLASSES = [
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
    _MEM_FORMAT_ENCODING,
    _StorageInfo,
    torch.Size,
]
# BytesStorageMetadata is left out on purpose: what it stands for, torch unpickles freely
_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    **{(one.__module__, one.__name__): one for one in _CLASSES},
    ("torch.serialization", "_get_layout"): _layout,
    # where it was written, by any system and any Python
    **{
        (module, f"{system}Path"): PurePath
        for module in ("pathlib", "pathlib._local")
        for system in ("Posix", "Windows", "PurePosix", "PureWindows")
    },
}
