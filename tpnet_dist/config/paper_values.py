"""What the paper's tables say of its 13 datasets: `paper_tables.toml`, read and typed."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_MODELS = "models"
"""The table that is no dataset's: which model stands in which column."""


@dataclass(frozen=True)
class PaperValue:
    """A figure of the paper as a share of 1, where it prints percent."""

    mean: float
    std: float
    """Standard deviation over the paper's five runs."""


@dataclass(frozen=True)
class PaperDataset:
    """One of the paper's datasets, by its statistics there."""

    key: str
    """The name of its preset in `launch/presets`."""
    name: str
    """The name as the paper spells it."""
    num_nodes: int
    num_events: int
    edge_features: int
    """The number of features that an event has."""


def paper_value(dataset: str, setting: str, negatives: str, metric: str, *, model: str) -> PaperValue | None:
    """Return a figure of the paper; None where the paper has no such figure.

    `dataset`: any spelling `paper_dataset` knows; `setting`: transductive or inductive; `metric`: ap or auc;
    `model`: by its name here, or `edgebank`.
    """
    known, columns = paper_dataset(dataset), paper_models(setting)
    if known is None or model not in columns:
        return None
    row = _tables()[known.key].get(setting, {}).get(negatives, {}).get(metric)
    if row is None:
        return None
    mean, std = row.split()[columns.index(model)].split("±")
    return PaperValue(round(float(mean) / 100, 6), round(float(std) / 100, 6))


def paper_models(setting: str) -> list[str]:
    """Return the models of the tables of these events, in order; inductive ones are without EdgeBank."""
    models: list[str] = _tables()[_MODELS].get(setting, [])
    return models


def paper_dataset(name: str) -> PaperDataset | None:
    """Return the dataset meant by the name of a preset, of a folder or of DyGLib's file; None: not the
    paper's.

    Case and punctuation do not matter: can_parl, CanParl, "Can. Parl.", ml_CanParl.csv.
    """
    key = _keys_by_name().get(_normal(name))
    if key is None:
        return None
    table = _tables()[key]
    return PaperDataset(key, table["name"], table["nodes"], table["events"], table["edge_features"])


def paper_datasets() -> list[str]:
    """Return the keys of the paper's datasets, in the order of the paper."""
    return [key for key in _tables() if key != _MODELS]


def _normal(name: str) -> str:
    stem = re.sub(r"^ml_|\.(csv|txt)(\.gz|\.zst)?$", "", name.strip().lower())
    return re.sub(r"[^a-z0-9]", "", stem)


@cache
def _keys_by_name() -> dict[str, str]:
    return {
        _normal(name): key
        for key in paper_datasets()
        for table in [_tables()[key]]
        for name in (key, table["name"], *table.get("other_names", ()))
    }


@cache
def _tables() -> dict[str, dict[str, Any]]:
    # beside this file, in a checkout and in a wheel alike
    return tomllib.loads((files("tpnet_dist.config") / "paper_tables.toml").read_text(encoding="utf-8"))
