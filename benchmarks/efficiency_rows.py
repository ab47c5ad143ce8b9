"""Speed and accuracy of each model in one row, and the table of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.efficiency_rank import PhaseSpeed, Speed
from benchmarks.finished_runs import SeedResult
from benchmarks.model_steps import PUBLISHED
from benchmarks.sheet import Sheet
from benchmarks.study_logs import title_of
from benchmarks.variants import titles
from tpnet_dist.config.paper_values import paper_value


@dataclass(frozen=True)
class Efficiency:
    """One model on one log."""

    model: str
    title: str
    parameters: int
    training: PhaseSpeed
    scoring: PhaseSpeed
    training_epoch: float
    scoring_epoch: float
    """Seconds."""
    test_ap: float | None
    """Transductive, against random negatives; None where nothing was trained long enough."""
    inductive_test_ap: float | None
    epochs: int
    """Trained so far."""
    paper_ap: float | None


def rows_of(
    speeds: Mapping[str, Speed],
    results: Mapping[str, SeedResult],
    dataset: str,
    train_batches: int,
    test_batches: int,
) -> list[Efficiency]:
    rows = []
    for model, speed in speeds.items():
        result, paper = results.get(model), paper_value(dataset, "transductive", "random", "ap", model=model)
        rows.append(
            Efficiency(
                model=model,
                title=titles()[model],
                parameters=speed.parameters,
                training=speed.training,
                scoring=speed.scoring,
                training_epoch=speed.training.step_p50 * train_batches,
                scoring_epoch=speed.scoring.step_p50 * test_batches,
                test_ap=_ap(result, "transductive"),
                inductive_test_ap=_ap(result, "inductive"),
                epochs=result.epochs_run if result else 0,
                paper_ap=paper.mean if paper else None,
            )
        )
    return rows


def _ap(result: SeedResult | None, setting: str) -> float | None:
    return result.test.get(setting, {}).get("random", {}).get("ap") if result else None


def efficiency_sheets(rows: list[Efficiency], dataset: str) -> list[Sheet]:
    """Return a table of speed, which fits a terminal by having a line for each phase, and one of accuracy."""
    shows_released = dataset == "uci"
    speeds = [
        (row.title, phase, *_cells(speed, epoch), *([_released(row, number)] if shows_released else []))
        for number, phase in enumerate(("training", "scoring"))
        for row in rows
        for speed, epoch in [_of_phase(row, phase)]
    ]
    shares = ("neighbours", "relative encoding", *(["released code, s/step"] if shows_released else []))
    heads = ("model", "phase", "s/epoch", "s/step", "x TPNet", *shares)
    aps = [
        (
            *(row.title, f"{row.parameters:,}"),
            *map(_figure, (row.test_ap, row.inductive_test_ap, row.paper_ap)),
            str(row.epochs),
        )
        for row in rows
    ]
    figures = ("model", "weights", "test AP", "test AP, inductive", "the paper's AP", "epochs")
    return [
        Sheet(f"{title_of(dataset)}: seconds of each model", heads, 2, speeds),
        Sheet(f"{title_of(dataset)}: AP against random negatives", figures, 1, aps),
    ]


def _of_phase(row: Efficiency, phase: str) -> tuple[PhaseSpeed, float]:
    if phase == "training":
        return row.training, row.training_epoch
    return row.scoring, row.scoring_epoch


def _cells(speed: PhaseSpeed, epoch: float) -> list[str]:
    shares = (f"{speed.shares.neighbors:.1%}", f"{speed.shares.relative_encoding:.1%}")
    return [f"{epoch:,.1f}", f"{speed.step_p50:.3f}", f"{speed.times_tpnet:.2f}", *shares]


def _released(row: Efficiency, phase: int) -> str:
    return f"{PUBLISHED[row.model][phase]:.3f}" if row.model in PUBLISHED else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
