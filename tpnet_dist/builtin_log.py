"""A small social log to train on when no data is given, made on first use and kept in the user's cache."""

import os
from pathlib import Path

from data_prep.synth import make_log
from tpnet_dist.events.manifest import MANIFEST_NAME

EVENTS = 10_000


def builtin_log() -> Path:
    """Its data folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tpnet_dist" / f"social-{EVENTS}"
    if not (folder / MANIFEST_NAME).exists():
        make_log(folder, kind="social", events=EVENTS)
    return folder
