"""Run folders as training leaves them, with figures of the test's choice."""

import json
from pathlib import Path
from typing import Any

from tpnet_dist.config.keys import config_from
from tpnet_dist.config.toml_files import read_preset, write_config

NEGATIVES = ("random", "historical", "inductive")


def seed_results(ap: float) -> dict[str, Any]:
    """Inductive figures are a tenth lower, AUC a hundredth."""
    figures = {
        setting: {kind: {"ap": ap - less, "auc": ap - less - 0.01} for kind in NEGATIVES}
        for setting, less in (("inductive", 0.1), ("transductive", 0.0))
    }
    return {"val": figures, "test": figures, "best_epoch": 2, "epochs_run": 3}


def write_run(
    run: Path,
    ap_of_seeds: dict[int, float],
    *,
    folder: str = "data/uci",
    model: str = "tpnet",
    baselines: dict[str, float] | None = None,
    **keys: object,
) -> Path:
    """`keys` are settings that differ from UCI's preset, with two underscores for the dot; `baselines`: AP of
    each."""
    said = {key.replace("__", "."): value for key, value in keys.items()}
    seeds = tuple(ap_of_seeds)
    said |= {"training.seeds": seeds} if len(seeds) > 1 else {"training.seed": seeds[0]}
    run.mkdir(parents=True)
    own = {"data.folder": folder, "model.name": model}
    write_config(config_from([read_preset("uci", model), own, said]), run / "config.toml")
    by_seed = {str(seed): seed_results(ap) for seed, ap in ap_of_seeds.items()}
    first = next(iter(by_seed.values()))
    results = {**first, **({"seeds": by_seed} if len(seeds) > 1 else {})}
    facts: dict[str, Any] = {"batching": "events", "protocol": "dyglib", "ranks": 2}
    facts["baselines"] = {name: {"test": seed_results(ap)["test"]} for name, ap in (baselines or {}).items()}
    (run / "results.json").write_text(json.dumps({**results, **facts}))
    return run
