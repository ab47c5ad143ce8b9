"""Run folders with figures made up by hand, written by the parts that write real ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpnet_dist.config.schema import Config, DataConfig, EvaluationConfig, TrainingConfig
from tpnet_dist.config.toml_files import write_config
from tpnet_dist.files.stored_json import sealed, sealed_line

KINDS = ("random", "historical", "inductive")


RUN_INFO: dict[str, Any] = {
    "started": "2026-01-02T03:00:00+00:00",
    "finished": "2026-01-02T03:04:00+00:00",
    "data": {
        "folder": "data/nowhere/uci",
        "log_id": "it",
        "events": {"train": 700, "val": 150, "test": 150},
        "nodes": 99,
    },
    "settings": {"training.seed": 0, "memory.width": None},
    "versions": {"tpnet_dist": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
}


def figures(ap: float) -> dict[str, Any]:
    """Of both kinds of events against all negatives."""
    by_kind = {
        kind: {"ap": ap - 0.1 * place, "auc": ap - 0.1 * place - 0.01} for place, kind in enumerate(KINDS)
    }
    return {"transductive": by_kind, "inductive": by_kind}


def results_of(ap: float, **more: Any) -> dict[str, Any]:
    """Of one seed that is finished."""
    return {
        "val": figures(ap - 0.02),
        "test": figures(ap),
        "best_epoch": 2,
        "epochs_run": 3,
        "events_per_second": {"train": 124.4, "score": 367.0},
        "batching": "events",
        "protocol": "dyglib",
        "update": True,
        "ranks": 2,
        "device": "cpu",
        "peak_memory_bytes": 3 * 2**29,
        "peak_memory_bytes_by_rank": [3 * 2**29, 2**30],
        **more,
    }


def whole_results(results: dict[str, Any], config: Config) -> dict[str, Any]:
    """As training writes them: of one seed with that seed's own, and with what is told of the run."""
    of_seed = ("val", "test", "best_epoch", "epochs_run", "events_per_second", "exchange")
    seed = str(config.training.all_seeds()[0])
    seeds = {seed: {name: results[name] for name in of_seed if name in results}}
    return {"version": 1, "run": RUN_INFO, "seeds": seeds, **results}


def metrics_of(seed: int = 0, epochs: int = 3, steps: int = 4) -> list[dict[str, Any]]:
    """Lines of `metrics.jsonl`: a second for each step, two for each evaluation."""
    lines: list[dict[str, Any]] = []
    seconds = 0.0
    for epoch in range(1, epochs + 1):
        for step in range(steps * (epoch - 1) + 1, steps * epoch + 1):
            seconds += 1
            place = {"step": step, "seconds": seconds, "seed": seed, "epoch": epoch}
            lines.append({"kind": "step", **place, "loss": 1 / step, "running_ap": 0.8})
        seconds += 2
        ap = {"random": {"ap": 0.9 + 0.01 * epoch, "auc": 0.8 + 0.01 * epoch}}
        part = {"transductive": ap, "inductive": ap}
        place = {"step": steps * epoch, "seconds": seconds, "seed": seed, "epoch": epoch}
        lines.append({"kind": "eval", **place, "train_loss": 0.5 / epoch, "val": part})
    return lines


def config_of(folder: str = "data/nowhere/uci", *, seeds: tuple[int, ...] = (0,), **training: Any) -> Config:
    several = {"seeds": seeds} if len(seeds) > 1 else {"seed": seeds[0]}
    return Config(
        data=DataConfig(folder=folder),
        training=replace(TrainingConfig(epochs=3), **several, **training),
        evaluation=EvaluationConfig(negatives=KINDS),
    )


def write_run(
    folder: Path,
    config: Config | None = None,
    results: dict[str, Any] | None = None,
    metrics: list[dict[str, Any]] | None = None,
    log_id: str | None = None,
) -> Path:
    """What is None is not there."""
    folder.mkdir(parents=True)
    write_config(config or config_of(), folder / "config.toml")
    if metrics is not None:
        (folder / "metrics.jsonl").write_text("".join(f"{sealed_line(line)}\n" for line in metrics))
    if results is not None:
        content = whole_results(results, config or config_of())
        (folder / "results.json").write_text(json.dumps(sealed(content)))
    if log_id is not None:
        step = folder / "checkpoints" / "seed-0" / "step-00000001"
        step.mkdir(parents=True)
        (step / "manifest.json").write_text(json.dumps({"log_id": log_id}))
    return folder
