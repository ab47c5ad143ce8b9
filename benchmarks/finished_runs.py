"""What runs came to, read from their folders: one result for each seed, or what it is at so far."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.study_logs import dataset_of, dataset_order, differences, width_there
from benchmarks.variants import VARIANTS, WHOLE, decay_of, titles, variant_of, width_of
from tpnet_dist.config.keys import config_from
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, preset_names, read_config, read_preset
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import RESULTS_NAME, Figures, Results, read_results
from tpnet_dist.training.metrics_file import METRICS_NAME, EpochLine, read_lines


@dataclass(frozen=True)
class SeedResult:
    """One seed of one run."""

    dataset: str
    """The name of the preset, or the data folder."""
    model: str
    """The name of the model."""
    variant: str
    seed: int
    val: Figures
    test: Figures
    width: int | None
    """The width of the memory; None where it is not known any more."""
    decay: float | None
    """λ of the memory; None where there are several."""
    best_epoch: int
    epochs_run: int
    ranks: int
    batching: str
    protocol: str
    differences: str
    """How the log differs from the paper's, as text."""
    run: Path
    baselines: dict[str, Figures] = field(default_factory=dict)
    """Figures of baselines on the test part, by name."""
    under_way: bool = False
    """Whether this is the best epoch so far, of a run that is to go on."""


def results_of(run: Path, *, dataset: str | None = None, base: Config | None = None) -> list[SeedResult]:
    """Return the results of a run. `base`: the settings that its variant is named against; by default the
    preset of its dataset."""
    results, config = _read(run)
    common = _common(run, config, dataset, base)
    return [
        SeedResult(
            **common,
            seed=seed,
            val=figures.val,
            test=figures.test,
            best_epoch=_epoch(figures.best_epoch, run),
            epochs_run=_epoch(figures.epochs_run, run),
            ranks=results.conditions.ranks,
            baselines={name: by_part.get("test", {}) for name, by_part in results.baselines.items()},
        )
        for seed, figures in results.seeds.items()
    ]


def results_so_far(
    run: Path, ranks: int, *, dataset: str | None = None, base: Config | None = None
) -> list[SeedResult]:
    """Return the best epoch so far of a run that was broken off, if epochs evaluated the test part too."""
    if not (run / CONFIG_NAME).is_file():
        return []
    config = read_config(run / CONFIG_NAME)
    kind = config.evaluation.negatives[0]
    lines = [line for _, line in read_lines(run / METRICS_NAME) if isinstance(line, EpochLine) and line.test]
    # an epoch that was trained twice, since a run went on from before it, counts as it was the last time
    epochs = {line.epoch: line for line in lines if line.seed == config.training.all_seeds()[0]}
    if not epochs:
        return []
    best = max(epochs.values(), key=lambda line: (line.val["transductive"][kind]["ap"], -line.epoch))
    return [
        SeedResult(
            **_common(run, config, dataset, base),
            seed=best.seed,
            val=best.val,
            test=best.test,
            best_epoch=best.epoch,
            epochs_run=max(epochs),
            ranks=ranks,
            under_way=True,
        )
    ]


def _common(run: Path, config: Config, dataset: str | None, base: Config | None) -> dict[str, Any]:
    folder = Path(config.data.folder)
    dataset = dataset or dataset_of(folder)
    decay = config.memory.decay
    return {
        "dataset": dataset,
        "model": config.model.name,
        "variant": variant_of(config, base or _preset_config(dataset, config.model.name)),
        "width": config.memory.width or width_there(folder),
        "decay": decay if isinstance(decay, float) else None,
        "batching": config.data.batching,
        "protocol": config.evaluation.protocol,
        "differences": differences(dataset, folder),
        "run": run,
    }


def read_runs(places: tuple[Path, ...]) -> list[SeedResult]:
    """Return the results of these runs, and of all finished runs within these folders."""
    results = [result for place in places for run in _runs_at(place) for result in results_of(run)]
    refuse_repeated(results)
    return in_order(results)


def in_order(results: list[SeedResult]) -> list[SeedResult]:
    """Return the results in the paper's order of datasets, then by variant and seed."""
    return sorted(
        results, key=lambda one: (dataset_order(one.dataset), _variant_order(one.variant), one.seed)
    )


def refuse_repeated(results: list[SeedResult]) -> None:
    """Refuse a seed that is counted twice, which makes no mean of two."""
    seen: dict[tuple[str, str, int], Path] = {}
    for one in results:
        other = seen.setdefault((one.dataset, one.variant, one.seed), one.run)
        if other != one.run:
            raise InputError(
                f"{one.run}: {one.dataset}, {one.variant}, seed {one.seed}, as is {other}; give one of them"
            )


def _variant_order(variant: str) -> tuple[int, float, str]:
    names = [*dict.fromkeys([WHOLE, *titles().values()]), *VARIANTS]
    known = names.index(variant) if variant in names else len(names)
    return known, width_of(variant) or decay_of(variant) or 0, variant


def _runs_at(place: Path) -> Iterator[Path]:
    if (place / CONFIG_NAME).exists():
        yield place
        return
    found = sorted(path.parent for path in place.rglob(RESULTS_NAME))
    if not found:
        raise InputError(f"--runs {place}: no finished run is there; give folders of runs")
    yield from found


def _read(run: Path) -> tuple[Results, Config]:
    results = read_results(run)
    if results is None:
        raise InputError(f"{run}: holds no {RESULTS_NAME}, so the run is not finished; finish it")
    return results, read_config(run / CONFIG_NAME)


def _epoch(number: float | None, run: Path) -> int:
    if number is None:
        raise InputError(f"{run / RESULTS_NAME}: says not how many epochs there were; train the run again")
    return int(number)


def _preset_config(dataset: str, model: str) -> Config:
    """Return the settings of the preset for this model, of which the preset may have a table."""
    preset = [read_preset(dataset, model)] if dataset in preset_names() else []
    return config_from([*preset, {"model.name": model}])
