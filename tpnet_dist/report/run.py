"""A run as the report sees it: all that its folder says, read once; a folder that is no run is refused."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import EVALUATION_NAME, Results, SeedResults, read_results
from tpnet_dist.report.curves import Curves, read_curves
from tpnet_dist.report.event_log import EventLogFacts, Recognition, read_event_log, recognise
from tpnet_dist.report.traces import PhaseSeconds, read_phases
from tpnet_dist.training.metrics_file import METRICS_NAME


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, finished or not."""

    name: str
    folder: Path
    """The folder as it was given."""
    config: Config
    results: Results | None
    """Results, with what was evaluated later; None before the run is finished."""
    mrr_negatives: int
    """The number of destinations that events were ranked among; 0: they were not ranked."""
    curves: Curves
    log: EventLogFacts
    log_id: str | None
    """The id of the log it was trained on; None where no checkpoint says so."""
    recognition: Recognition | None
    phases: list[PhaseSeconds]
    """Seconds by rank and phase of a run that was traced."""
    last_written: datetime | None
    """The time at which its metrics last grew."""

    @property
    def title(self) -> str:
        """The name of what it was trained on."""
        return self.recognition.dataset.name if self.recognition else self.log.name

    def by_seed(self) -> dict[int, SeedResults]:
        """Return the results of each seed; none before the run is finished."""
        return self.results.seeds if self.results else {}


def read_run(folder: Path) -> Run:
    """Read a run; InputError with one sentence where there is none."""
    if not (folder / CONFIG_NAME).is_file():
        raise InputError(f"{folder}: holds no {CONFIG_NAME}, so it is no run; give the folder of a run")
    config, metrics = read_config(folder / CONFIG_NAME), folder / METRICS_NAME
    log_id = _log_id(folder)
    log = read_event_log(config.data.folder, log_id)
    written = datetime.fromtimestamp(metrics.stat().st_mtime).astimezone() if metrics.is_file() else None
    results, later = read_results(folder), read_results(folder, EVALUATION_NAME)
    return Run(
        name=folder.resolve().name,
        folder=folder,
        config=config,
        results=_with_evaluation(results, later) if results and later else results,
        mrr_negatives=config.evaluation.mrr_negatives or (later.conditions.mrr_negatives if later else 0),
        curves=read_curves(metrics),
        log=log,
        log_id=log_id,
        recognition=recognise(log),
        phases=read_phases(folder / "profile"),
        last_written=written,
    )


def _with_evaluation(results: Results, later: Results) -> Results:
    """Add what was evaluated later. What the run has stays as it is; speed and memory are those of
    training."""
    seeds = {
        seed: replace(own, val=_filled(own.val, also.val), test=_filled(own.test, also.test))
        if (also := later.seeds.get(seed))
        else own
        for seed, own in results.seeds.items()
    }
    return replace(results, seeds=seeds, baselines=_filled(results.baselines, later.baselines))


def _filled(own: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return `own`, and what is not there from `later`, however deep."""
    both = {
        name: _filled(own[name], later[name])
        for name in own.keys() & later.keys()
        if isinstance(own[name], dict) and isinstance(later[name], dict)
    }
    return {**later, **own, **both}


def _log_id(folder: Path) -> str | None:
    """Return the id that a checkpoint has; None where none says so."""
    for manifest in sorted(folder.glob("checkpoints/seed-*/step-*/manifest.json"), reverse=True):
        try:
            return str(json.loads(manifest.read_text(encoding="utf-8"))["log_id"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged, or just replaced by a newer one
    return None
