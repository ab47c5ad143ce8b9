"""Where the real event logs and golden numbers lie, if they are at hand."""

import os
from pathlib import Path

import pytest

_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[3] / "shared"


def shared_folder() -> Path:
    """`$TPNET_SHARED`, else `shared/` beside the project; skips the test where neither is there."""
    folder = Path(os.environ.get("TPNET_SHARED", _BESIDE_THE_PROJECT))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real event logs in {folder}")
    return folder
