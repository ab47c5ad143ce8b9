"""A checksum of what a checkpoint holds, kept inside it: reading notices a bit that a disk changed."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

DIGEST_KEY = "sha256"
"""The key of the checksum, which covers all other keys."""


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with its checksum."""
    return {**content, DIGEST_KEY: content_digest(content)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Return whether the content has the checksum it was sealed with. Earlier versions sealed nothing, so
    content without a checksum passes."""
    try:
        return DIGEST_KEY not in content or bool(content[DIGEST_KEY] == content_digest(content))
    except RuntimeError:
        # of tensors without plain content, sparse ones for example, which nobody seals
        return False


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of tensors and plain values by their keys, the checksum itself left out. JSON makes
    lists of tuples, so both count as the same."""
    digest = hashlib.sha256()
    _add({key: value for key, value in content.items() if key != DIGEST_KEY}, digest)
    return digest.hexdigest()


def _add(value: object, digest: "hashlib._Hash") -> None:
    if isinstance(value, Tensor):
        _add([str(value.dtype), list(value.shape)], digest)
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)} ".encode())
        for key in sorted(value, key=str):
            _add(key, digest)
            _add(value[key], digest)
    elif isinstance(value, list | tuple):
        digest.update(f"list {len(value)} ".encode())
        for each in value:
            _add(each, digest)
    else:
        digest.update(f"{type(value).__name__} {value!r} ".encode(errors="backslashreplace"))
