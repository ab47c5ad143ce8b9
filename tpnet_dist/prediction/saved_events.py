"""A predictor in a file: a checkpoint as `best.pt` is, with what was observed since beside the weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpnet_dist.config_keys import values_of
from tpnet_dist.events.shards import EventColumns, concatenate
from tpnet_dist.prediction.build import Parts
from tpnet_dist.prediction.trained import Trained
from tpnet_dist.training.step_folder import FORMAT
from tpnet_dist.whole_file import whole_file


def save_state(path: Path, trained: Trained, parts: Parts) -> None:
    """All that loading needs but the data folder; of rows only the events they follow from."""
    past, ids = parts.past, parts.ids
    observed = {
        "until": past.until,
        "as_evaluated": past.as_evaluated,
        "capacity": ids.capacity,
        "projection": trained.projection,
        "newcomers": [list(newcomer) for newcomer in ids.newcomers],
        "sizes": [len(columns) for columns in past.later.columns],
        **_tensors(past.later.columns),
        "features": torch.from_numpy(np.concatenate(past.later.features)) if past.later.features else None,
    }
    state = {
        "format": FORMAT,
        "model": parts.scorer.model.state_dict(),
        "epoch": trained.epoch,
        "seed": trained.seed,
        "log_id": past.log.manifest.log_id,
        "config": dict(values_of(trained.config)),
        "predictor": observed,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        torch.save(state, file)


def load_later(saved: Mapping[str, Any], parts: Parts) -> None:
    """Add what was observed, in the same batches: rows come out the same to the last bit."""
    past = parts.past
    parts.ids.admit_all([(side, raw) for side, raw in saved["newcomers"]])
    start = 0
    for size in saved["sizes"]:
        here = slice(start, start + size)
        src, dst, time = (saved[name][here].numpy() for name in ("src", "dst", "time"))
        features = None if saved["features"] is None else saved["features"][here].numpy()
        past.add(src, dst, time, features)
        past.record()
        start += size


def _tensors(parts: list[EventColumns]) -> dict[str, torch.Tensor]:
    """The events of all parts, one after another."""
    if not parts:
        return dict.fromkeys(("src", "dst", "time"), torch.empty(0))
    together = concatenate(parts)
    return {
        "src": torch.from_numpy(together.src.astype(np.int64)),
        "dst": torch.from_numpy(together.dst.astype(np.int64)),
        "time": torch.from_numpy(together.time),
    }
