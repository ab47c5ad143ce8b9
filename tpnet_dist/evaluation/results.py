"""What a finished run says: `results.json` as dataclasses, written, and read by whoever wants its figures.

docs/results-format.md describes the file. Nothing here needs torch: reports read results without it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.calibration import Calibration
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.stored_json import CHECKSUM_KEY, parse_json, require_intact, sealed
from tpnet_dist.files.typed_json import from_json, to_json
from tpnet_dist.files.user_paths import require_file

RESULTS_NAME = "results.json"
EVALUATION_NAME = "evaluation.json"
"""The file of a finished run that was evaluated anew; it has the same schema."""
VERSION = 1
"""The version of the schema; keys that are added do not change it."""
_REMEDIES = {
    RESULTS_NAME: "remove it and repeat the run's command",
    EVALUATION_NAME: "remove it and evaluate the run again",
}

ByKind = dict[str, dict[str, float]]
"""Kind of negatives → metric → value."""
Figures = dict[str, ByKind]
"""Setting (transductive, inductive) → kind of negatives → metric → value."""


@dataclass(frozen=True, kw_only=True)
class EventsPerSecond:
    """Holds the speed of all ranks together."""

    train: float | None = None
    """Events learned from in a second; None for an evaluation."""
    score: float | None = None
    """Events scored in a second, each against one negative of each kind, and recorded."""
    links: float | None = None
    """Links of any kind that an evaluation scored, in a second."""


@dataclass(frozen=True, kw_only=True)
class ExchangeVolume:
    """Holds what rows between ranks took in training."""

    bytes_per_event: float
    """Bytes per event that travel between all ranks."""
    remote_rows_held: float
    """The share of other ranks' rows needed for runs of batches that were there already."""


@dataclass(frozen=True, kw_only=True)
class SeedResults:
    """Holds the figures of one seed's best weights; also the mean over seeds, and the deviation from it."""

    val: Figures
    test: Figures
    best_epoch: float | None = None
    """The best epoch, from 1 on; None for an evaluation."""
    epochs_run: float | None = None
    events_per_second: EventsPerSecond | None = None
    exchange: ExchangeVolume | None = None
    """The mean over epochs; None on one rank."""
    calibration: Calibration | None = None
    """How logits of the best weights become probabilities."""
    before: dict[str, Figures] | None = None
    """The figures, by part, of the weights that the seed began with, on the same events; None if it began
    anew."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Says how figures, speed and memory came about; without the first three, figures cannot be compared."""

    batching: str
    protocol: str
    update: bool
    """Whether the memory went on recording after training."""
    mrr_negatives: int = 0
    """The number of random destinations that each event was ranked among; 0: it was not ranked."""
    ranks: int
    device: Literal["cpu", "cuda"] | None = None
    peak_memory_bytes: int | None = None
    """Peak memory of the rank that took most."""
    peak_memory_bytes_by_rank: tuple[int, ...] | None = None
    peak_reserved_bytes_by_rank: tuple[int, ...] | None = None
    """The most memory that torch reserved on each rank's GPU, also for tensors to come; None on CPUs."""


@dataclass(frozen=True, kw_only=True)
class EventCounts:
    """Counts events by part of the split; events of new nodes are in no part."""

    train: int
    val: int
    test: int


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """Describes the event log."""

    folder: str
    log_id: str
    """The id in the log's manifest; logs of other content have another."""
    events: EventCounts
    nodes: int
    name: str = ""
    """The name of the data folder."""
    version: int = 1
    """Which version of a log that grew: 1 as it was converted, one more for each append."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Holds the versions that the run was made with."""

    tpnet_dist: str
    torch: str
    python: str


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """Says which run it was."""

    started: datetime
    """The start of the process that finished the run; a run that was broken off began before."""
    finished: datetime
    data: DataInfo
    settings: dict[str, object]
    """Every setting by its dotted key."""
    versions: Versions
    machine: str = ""
    """System, cores and GPUs of the first rank."""
    command: str = ""
    """What was typed, or the function that was called."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Holds all that `results.json` says."""

    conditions: Conditions
    seeds: dict[int, SeedResults]
    """Results by seed, of at least one."""
    run: RunInfo | None = None
    """Which run it was; None in files of before the schema had a version."""
    baselines: dict[str, dict[str, Figures]] = field(default_factory=dict)
    """Name of a baseline → part → figures."""
    others: dict[str, object] = field(default_factory=dict)
    """Values that a later release stores, by keys that this one does not know."""

    @cached_property
    def mean(self) -> SeedResults:
        """Return the mean over seeds."""
        return self._spread[0]

    @cached_property
    def deviation(self) -> SeedResults | None:
        """Return the standard deviation over seeds; None for one seed."""
        return self._spread[1] if len(self.seeds) > 1 else None

    @cached_property
    def _spread(self) -> tuple[SeedResults, SeedResults]:
        # probabilities are calibrated for the weights of one seed
        of_seeds = [to_json(replace(seed, calibration=None)) for seed in self.seeds.values()]
        mean, deviation = mean_and_deviation(of_seeds)
        if len(self.seeds) == 1:
            [only] = self.seeds.values()
            return only, only
        return from_json(SeedResults, mean), from_json(SeedResults, deviation)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object; the mean lies at the top, where figures of one seed are looked for."""
        return {
            "version": VERSION,
            **({"run": to_json(self.run)} if self.run else {}),
            **to_json(self.conditions),
            **to_json(self.mean),
            **({"standard_deviation": to_json(self.deviation)} if self.deviation else {}),
            "seeds": to_json(self.seeds),
            **({"baselines": to_json(self.baselines)} if self.baselines else {}),
            **self.others,
        }


_KNOWN = {
    *("version", "run", "standard_deviation", "seeds", "baselines", CHECKSUM_KEY),
    *(each.name for kind in (Conditions, SeedResults) for each in fields(kind)),
}


def results_from_json(content: object) -> Results:
    """Read results; raise InputError that says what is wrong at which key, without the file's name."""
    said = from_json(dict[str, object], content)
    number = from_json(int, said.get("version"), "version")
    if number > VERSION:
        raise InputError(f"version is {number}, but must be at most {VERSION}: a later release wrote it")
    # the mean and the deviation follow from the seeds, but programs of others read them
    from_json(SeedResults, said)
    seeds = from_json(dict[int, SeedResults], said.get("seeds"), "seeds")
    if not seeds:
        raise InputError("seeds is {}, but must hold at least one seed")
    from_json(SeedResults | None, said.get("standard_deviation"), "standard_deviation")  # type: ignore[arg-type]
    return Results(
        conditions=from_json(Conditions, said),
        seeds=seeds,
        run=from_json(RunInfo, said["run"], "run") if "run" in said else None,
        baselines=from_json(dict[str, dict[str, Figures]], said.get("baselines", {}), "baselines"),
        others={name: value for name, value in said.items() if name not in _KNOWN},
    )


def read_results(run: Path, name: str = RESULTS_NAME) -> Results | None:
    """Read the results in a run's folder; return None if there are none yet, refuse damaged ones."""
    path = run / name
    require_file(path, "results")
    try:
        content = parse_json(path.read_bytes())
        if isinstance(content, dict) and content.keys().isdisjoint({"version", CHECKSUM_KEY}):
            content = _with_version(content, run)
        else:
            require_intact(content)
        return results_from_json(content)
    except FileNotFoundError:
        return None
    except InputError as error:
        raise InputError(f"{path}: {error}; {_REMEDIES[name]}") from error


def write_results(results: Results, run: Path, name: str = RESULTS_NAME) -> Path:
    """Write the file with its checksum, whole or not at all."""
    with atomic_write(run / name) as file:
        file.write(f"{json.dumps(sealed(results.to_json()), indent=2)}\n".encode())
    return run / name


def _with_version(content: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Fill in what a file of before the schema had a version leaves out, from the run's settings."""
    config = read_config(run / CONFIG_NAME)
    known = {
        "batching": config.data.batching,
        "protocol": config.evaluation.protocol,
        "update": config.evaluation.update,
        "mrr_negatives": config.evaluation.mrr_negatives,
    }
    of_seed = {each.name for each in fields(SeedResults)}
    only = {name: value for name, value in content.items() if name in of_seed}
    seeds = content.get("seeds") or {str(config.training.all_seeds()[0]): only}
    kept = {name: value for name, value in content.items() if name != "standard_deviation"}
    return {**known, **kept, "version": 0, "seeds": seeds}


def mean_and_deviation(
    figures: Sequence[Mapping[str, object]],
) -> tuple[dict[str, object], dict[str, object]]:
    """Return mean and deviation of several seeds' figures, nested alike, number by number."""
    mean: dict[str, object] = {}
    deviation: dict[str, object] = {}
    for name, first in figures[0].items():
        values = [each[name] for each in figures if name in each]
        if isinstance(first, Mapping):
            mean[name], deviation[name] = mean_and_deviation([v for v in values if isinstance(v, Mapping)])
        else:
            numbers = np.array(values, dtype=np.float64)
            mean[name] = float(numbers.mean())
            deviation[name] = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    return mean, deviation


def settings_and_kinds(figures: Figures) -> Iterator[tuple[str, str, dict[str, float]]]:
    for setting, by_kind in figures.items():
        for kind, metrics in by_kind.items():
            yield setting, kind, metrics


def release() -> str:
    """Return the version of this package; "unknown" where it was not installed."""
    try:
        return version("tpnet-dist")
    except PackageNotFoundError:
        return "unknown"
