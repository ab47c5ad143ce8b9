"""A predictor in a file: a checkpoint as `best.pt` is, with what was observed since beside the weights."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpnet_dist.config.keys import values_of
from tpnet_dist.errors import InputError
from tpnet_dist.events.raw_ids import Dense, RawIds, some_of
from tpnet_dist.events.shards import EventColumns, concatenate
from tpnet_dist.prediction.build import Parts
from tpnet_dist.prediction.times import as_times, require_order
from tpnet_dist.prediction.trained import Trained
from tpnet_dist.training.step_folder import FORMAT
from tpnet_dist.training.weights_file import write_state


def save_state(path: Path, trained: Trained, parts: Parts) -> None:
    """Save all that loading needs except the data folder. Rows are not saved: the observed events are, and
    loading replays them."""
    past, ids = parts.past, parts.ids
    observed = {
        "until": past.until,
        "as_evaluated": past.as_evaluated,
        "capacity": ids.capacity,
        "projection": trained.projection,
        "newcomers": [list(newcomer) for newcomer in ids.newcomers],
        "sizes": list(past.later.sizes),
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
        "calibration": None if trained.calibration is None else asdict(trained.calibration),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_state(path, state)


def load_later(saved: Mapping[str, Any], parts: Parts) -> None:
    """Add what was observed, in the same batches: rows come out the same to the last bit."""
    past, ids = parts.past, parts.ids
    ids.admit_all([(side, raw) for side, raw in saved["newcomers"]])
    src, dst, given = (saved[name].numpy() for name in ("src", "dst", "time"))
    times = as_times(given, past.log.manifest, len(given))
    features = None if saved["features"] is None else saved["features"].numpy()
    require_order(times, past.now, past.log.manifest, "observed event")
    if len(times):
        past.check_features(features, len(times))
        _require_nodes(ids, np.concatenate([src, dst]))
        past.repeat(src, dst, times, features, saved["sizes"])


def _require_nodes(ids: RawIds, dense: Dense) -> None:
    wrong = dense[~ids.is_node(dense)]
    if dense.dtype.kind != "i" or len(wrong):
        raise InputError(
            f"observed events name nodes that do not exist ({some_of(wrong.tolist())}); "
            "give a checkpoint as it was written"
        )


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
