"""The runs in a folder, a row for each: what they were given, how far they are, and what they came to."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpnet_dist.config.keys import values_of
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import RESULTS_NAME, SeedResults, read_results
from tpnet_dist.files.folder_lock import is_locked
from tpnet_dist.training.metrics_file import METRICS_NAME, EpochLine, read_lines

DEEPEST = 3
"""How many folders below the one that is listed a run may lie."""
TEXT, FIGURES = ("run", "dataset", "model", "state"), ("val_ap", "test_ap", "test_auc", "test_mrr")
COLUMNS = (*TEXT, "seconds", "finished", *FIGURES)
"""What runs can be sorted by."""
_NO_SETTING = ("data.folder", "data.held_out", "training.continue_from", "model.name")
"""Keys that other columns tell of, or that are places."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """Says of one run what a list shows."""

    run: str
    dataset: str
    model: str
    state: str
    """`finished`, `running`, or where it stopped."""
    seconds: float
    """Seconds of training and validation, over all processes and seeds."""
    finished: str | None
    val_ap: float | None
    test_ap: float | None
    test_auc: float | None
    test_mrr: float | None
    settings: Mapping[str, object]
    """Settings in which the runs of the list differ."""


def list_runs(folder: Path) -> list[RunRow]:
    """Rows by the runs' names; InputError where there is no such folder, or no run in it."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the one that holds runs")
    places = [path.parent for path in sorted(folder.rglob(CONFIG_NAME)) if _depth(path, folder) <= DEEPEST]
    if not places:
        raise InputError(f"{folder}: holds no run; train one, or name the folder that holds runs")
    settings = {place: dict(values_of(read_config(place / CONFIG_NAME))) for place in places}
    differing = _differing(list(settings.values()))
    return [_row(place, folder, settings[place], differing) for place in places]


def sorted_by(rows: Sequence[RunRow], column: str) -> list[RunRow]:
    """Figures best first and dates newest first, runs without one last; anything else from its least on."""
    if column not in COLUMNS:
        raise InputError(f"--sort is {column}, but must be one of {', '.join(COLUMNS)}; choose one")
    if column in FIGURES:
        return sorted(rows, key=lambda row: -_known(getattr(row, column)))
    if column == "finished":
        return sorted(rows, key=lambda row: row.finished or "", reverse=True)
    key: Callable[[RunRow], str | float] = lambda row: getattr(row, column)  # noqa: E731
    return sorted(rows, key=key)


def _known(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value


def _depth(path: Path, folder: Path) -> int:
    return len(path.relative_to(folder).parts) - 1


def _differing(all_settings: Sequence[Mapping[str, object]]) -> list[str]:
    keys = dict.fromkeys(key for settings in all_settings for key in settings if key not in _NO_SETTING)
    # a setting that another model does not have is no difference: the column of models says it
    return [
        key for key in keys if len({repr(settings[key]) for settings in all_settings if key in settings}) > 1
    ]


def _row(place: Path, folder: Path, settings: Mapping[str, object], differing: Sequence[str]) -> RunRow:
    results = read_results(place)
    epochs, seconds, state = _so_far(place)
    figures = _figures(results.mean, settings) if results else {}
    if "val_ap" not in figures and epochs:
        figures["val_ap"] = max(_first_ap(line, settings) for line in epochs)
    info = results.run if results else None
    return RunRow(
        run=str(place.relative_to(folder)) if place != folder else place.resolve().name,
        dataset=Path(str(settings["data.folder"])).name,
        model=str(settings["model.name"]),
        state="finished" if (place / RESULTS_NAME).exists() else state,
        seconds=seconds,
        finished=f"{info.finished:%Y-%m-%d %H:%M}" if info else None,
        val_ap=figures.get("val_ap"),
        test_ap=figures.get("test_ap"),
        test_auc=figures.get("test_auc"),
        test_mrr=figures.get("test_mrr"),
        settings={key: settings[key] for key in differing if key in settings},
    )


def _so_far(place: Path) -> tuple[list[EpochLine], float, str]:
    """Return the epochs of all seeds, the seconds they took, and where the run is."""
    lines = [line for _, line in read_lines(place / METRICS_NAME) if line is not None]
    if not lines:
        return [], 0.0, "running" if is_locked(place) else "not begun"
    last = lines[-1]
    state = f"epoch {last.epoch}, step {last.step}"
    epochs = [line for line in lines if isinstance(line, EpochLine)]
    return epochs, last.seconds, f"running, {state}" if is_locked(place) else f"stopped, {state}"


def _first_kind(settings: Mapping[str, object]) -> str:
    kinds = settings["evaluation.negatives"]
    return str(kinds[0]) if isinstance(kinds, tuple) else "random"


def _first_ap(line: EpochLine, settings: Mapping[str, object]) -> float:
    return line.val.get("transductive", {}).get(_first_kind(settings), {}).get("ap", -math.inf)


def _figures(results: SeedResults, settings: Mapping[str, object]) -> dict[str, float]:
    """Return the transductive figures against the first kind of negatives; ranks are among random ones."""
    kind = _first_kind(settings)
    val, test = (part.get("transductive", {}) for part in (results.val, results.test))
    found = {
        "val_ap": val.get(kind, {}).get("ap"),
        "test_ap": test.get(kind, {}).get("ap"),
        "test_auc": test.get(kind, {}).get("auc"),
        "test_mrr": test.get("random", {}).get("mrr"),
    }
    return {name: value for name, value in found.items() if value is not None}
