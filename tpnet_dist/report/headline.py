"""What a reader wants first of a run: what it is, how far it got, its main figures, and how to take them."""

from tpnet_dist.report.blocks import Text, Tile
from tpnet_dist.report.numbers import amount, figure, size
from tpnet_dist.report.run import Run
from tpnet_dist.report.series import SETTINGS, Series, training_speed

YEAR = 365 * 86400.0
YEARLY = {"can_parl", "us_legis", "un_trade", "un_vote"}
"""Datasets whose times are years or longer."""
FADED = 5.0
"""The exponent at which a weight counts as gone: it has decayed to e to the minus this."""


def lead(run: Run) -> str:
    """Say in one sentence what the run is."""
    config = run.config
    seeds = config.training.all_seeds()
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    where = f", on {_ranks(run.results.conditions.ranks)}" if run.results else ""
    how = f"{config.data.batching} batching, {config.evaluation.protocol} protocol, {which}{where}"
    profile = getattr(config.model, "profile", None)
    model = config.model.title + (f", {profile} profile" if profile else "")
    return f"{model}; {how}{_when(run)}."


def _when(run: Run) -> str:
    info = run.results.run if run.results else None
    return f"; finished {info.finished:%Y-%m-%d %H:%M %Z}" if info else ""


def notices(run: Run) -> list[str]:
    """Return a sentence for each thing that is unfinished, damaged or easily misread."""
    found = []
    if run.results is None:
        found.append(_progress(run))
    elif not run.curves.by_seed:
        found.append("metrics.jsonl holds nothing, so there are no curves.")
    if run.curves.damaged_lines:
        found.append(f"{run.curves.damaged_lines} damaged lines of metrics.jsonl were left out.")
    if not run.log.is_the_runs:
        found.append(f"{run.log.folder} now holds another log than the one this run was trained on.")
    return [*found, *_faded(run)]


def _progress(run: Run) -> str:
    curves, when = run.curves, run.last_written
    if when is None or not curves.last_step:
        return "This run has no results yet, and has not finished its first steps."
    return (
        f"This run has no results yet: it was at step {curves.last_step:,}, with {curves.last_epoch} of at "
        f"most {run.config.training.epochs} epochs finished, when it last wrote, {when:%Y-%m-%d %H:%M %Z}. "
        "Repeat its command to go on if it was stopped."
    )


def _faded(run: Run) -> list[str]:
    """Warn where a large λ on yearly data leaves the memory nothing but simultaneous events."""
    memory = run.config.memory
    is_yearly = run.recognition is not None and run.recognition.dataset.key in YEARLY
    if not (is_yearly and memory.enabled and memory.walk == "decay" and memory.decay != "auto"):
        return []
    slowest = memory.rates[0]
    exponent = slowest * YEAR
    if exponent <= FADED:
        return []
    if run.config.data.batching == "events":
        rest = (
            "events of the same time, which stand in one batch with those to be predicted or just before them"
        )
    else:
        rest = "nothing: timestamps batching shows no event others of its own time"
    return [f"With a decay of {slowest:g} a year fades to e^−{exponent:.0f}, so the memory holds {rest}."]


def tiles(run: Run) -> list[Tile]:
    """Return the main figures; none where there are none."""
    return [*_figures(run), *_costs(run)]


def _figures(run: Run) -> list[Tile]:
    series, kind = Series((run,)), run.config.evaluation.negatives[0]
    found = []
    for setting in SETTINGS:
        value = series.figure("test", setting, kind, "ap")
        if value is None:
            continue
        paper = series.paper(run.recognition.dataset.key, setting, kind, "ap") if run.recognition else None
        beside = f"paper {paper.mean:.4f}\u00a0±\u00a0{paper.std:.4f}" if paper else f"{kind} negatives"
        found.append(Tile(f"Test AP, {setting}", figure(value.mean, value.std), beside))
    return found


def _costs(run: Run) -> list[Tile]:
    if run.results is None:
        return []
    conditions, mean, found = run.results.conditions, run.results.mean, []
    best, epochs = mean.best_epoch, mean.epochs_run
    if best is not None and epochs is not None:
        several = "mean of seeds, " if len(run.by_seed()) > 1 else ""
        beside = f"{several}of {amount(epochs)}, by validation AP"
        found.append(Tile("Best epoch", Text(amount(best)), beside))
    if rate := training_speed(run.results):
        found.append(Tile("Training speed", Text(amount(rate)), f"events/s, {_ranks(conditions.ranks)}"))
    if conditions.peak_memory_bytes:
        value, unit = size(conditions.peak_memory_bytes).split(" ")
        found.append(Tile("Peak memory", Text(value, unit), "of the rank that took most"))
    return found


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"
