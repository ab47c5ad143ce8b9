"""A run as the report sees it: all that its folder says, read once; a folder that is no run is refused."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.errors import InputError
from tpnet_dist.report.curves import Curves, read_curves
from tpnet_dist.report.event_log import EventLogFacts, Recognition, read_event_log, recognise
from tpnet_dist.report.traces import PhaseSeconds, read_phases
from tpnet_dist.training.run_log import EVALUATION_NAME, METRICS_NAME, RESULTS_NAME

Results = dict[str, Any]

FIGURES = ("val", "test", "baselines", "seeds")
"""What an evaluation may add to the results of its run."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, finished or not."""

    name: str
    folder: Path
    """As it was given."""
    config: Config
    results: Results | None
    """With what was evaluated later; None before the run is finished."""
    mrr_negatives: int
    """Among how many destinations events were ranked; 0: they were not."""
    curves: Curves
    log: EventLogFacts
    log_id: str | None
    """Of the log it was trained on; None where no checkpoint says so."""
    recognition: Recognition | None
    phases: list[PhaseSeconds]
    """By rank, of a run that was traced."""
    last_written: datetime | None
    """When its metrics last grew."""

    @property
    def title(self) -> str:
        """What it was trained on."""
        return self.recognition.dataset.name if self.recognition else self.log.name

    def by_seed(self) -> dict[int, Results]:
        """The results of each seed; none before the run is finished."""
        if self.results is None:
            return {}
        several = self.results.get("seeds")
        if several:
            return {int(seed): results for seed, results in several.items()}
        return {self.config.training.all_seeds()[0]: self.results}


def read_run(folder: Path) -> Run:
    """InputError with one sentence where there is none."""
    if not (folder / CONFIG_NAME).is_file():
        raise InputError(f"{folder}: holds no {CONFIG_NAME}, so it is no run; give the folder of a run")
    config, metrics = read_config(folder / CONFIG_NAME), folder / METRICS_NAME
    log_id = _log_id(folder)
    log = read_event_log(config.data.folder, log_id)
    written = datetime.fromtimestamp(metrics.stat().st_mtime).astimezone() if metrics.is_file() else None
    results = _read(folder / RESULTS_NAME, "repeat the run's command")
    later = _read(folder / EVALUATION_NAME, "evaluate the run again") or {}
    return Run(
        name=folder.resolve().name,
        folder=folder,
        config=config,
        results=None if results is None else _with_evaluation(results, later),
        mrr_negatives=config.evaluation.mrr_negatives or int(later.get("mrr_negatives", 0)),
        curves=read_curves(metrics),
        log=log,
        log_id=log_id,
        recognition=recognise(log),
        phases=read_phases(folder / "profile"),
        last_written=written,
    )


def _read(path: Path, remedy: str) -> Results | None:
    if not path.exists():
        return None
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not complete JSON ({error}); remove it and {remedy}") from error
    if not isinstance(results, dict):
        raise InputError(f"{path}: holds no JSON object; remove it and {remedy}")
    return results


def _with_evaluation(results: Results, later: Results) -> Results:
    """What the run has stays as it is; speed and memory are those of training."""
    figures = {name: later[name] for name in FIGURES if name in later}
    if "seeds" in figures:
        by_seed = figures["seeds"].items()
        figures["seeds"] = {
            seed: {name: each[name] for name in FIGURES if name in each} for seed, each in by_seed
        }
    return _filled(results, figures)


def _filled(own: Results, later: Results) -> Results:
    """`own`, and what is not there from `later`, however deep."""
    both = {
        name: _filled(own[name], later[name])
        for name in own.keys() & later.keys()
        if isinstance(own[name], dict) and isinstance(later[name], dict)
    }
    return {**later, **own, **both}


def _log_id(folder: Path) -> str | None:
    """As a checkpoint has it; None where none says so."""
    for manifest in sorted(folder.glob("checkpoints/seed-*/step-*/manifest.json"), reverse=True):
        try:
            return str(json.loads(manifest.read_text(encoding="utf-8"))["log_id"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged, or just replaced by a newer one
    return None
