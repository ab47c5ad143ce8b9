"""Where the real event logs and golden numbers lie, if they are at hand."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("TPNET_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def shared_folder() -> Path:
    """`$TPNET_SHARED`, else `shared/` beside the project; skips the test where neither is there."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"no real event logs in {SHARED}")
    return SHARED
