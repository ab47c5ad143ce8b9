"""Checkpoint folders that somebody changed, checksums and all; pickles that leave a mark when they run."""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpnet_dist.training.content_digest import sealed


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def metadata_of(step: Path) -> Any:
    """As torch itself reads it: of a checkpoint that was just written."""
    return pickle.loads((step / ".metadata").read_bytes())


def forge(step: Path, metadata: object) -> None:
    """Put it, or bytes as they are, in the place of the true one, and have the manifest vouch for it."""
    content = metadata if isinstance(metadata, bytes) else pickle.dumps(metadata)
    (step / ".metadata").write_bytes(content)
    record = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change_manifest(step, lambda manifest: manifest["files"].update({".metadata": record}))


def change_manifest(step: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the manifest says, and have its checksum vouch for it."""
    manifest = json.loads((step / "manifest.json").read_text())
    change(manifest)
    (step / "manifest.json").write_text(json.dumps(sealed(manifest)))
