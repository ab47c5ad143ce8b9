"""Speed and accuracy of each model in one row, and the table of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.efficiency_rank import PhaseSpeed, Speed
from benchmarks.finished_runs import SeedResult
from benchmarks.sheet import Sheet
from benchmarks.study_logs import title_of
from benchmarks.variants import titles
from tpnet_dist.config.paper_values import paper_value

RELEASED = {
    "tpnet": (0.91, 0.26),
    "dygformer": (1.984, 0.450),
    "tcl": (1.235, 0.430),
    "tgat": (5.825, 1.909),
    "cawn": (16.853, 5.007),
    "graphmixer": (1.628, 0.923),
}
"""Seconds per 200 events of UCI in the released code, training and scoring, on two cores of an AMD EPYC."""


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


def efficiency_sheet(rows: list[Efficiency], dataset: str) -> Sheet:
    shows_released = dataset == "uci"
    lines = [
        (
            *(row.title, f"{row.parameters:,}"),
            *_cells(row.training, row.training_epoch, _released(row, 0) if shows_released else None),
            *_cells(row.scoring, row.scoring_epoch, _released(row, 1) if shows_released else None),
            *(_figure(row.test_ap), _figure(row.inductive_test_ap), _figure(row.paper_ap), str(row.epochs)),
        )
        for row in rows
    ]
    phase: tuple[str, ...] = ("s/epoch", "s/step", "x TPNet", "neighbours", "relative encoding")
    phase += ("released, s/step",) if shows_released else ()
    figures = ("test AP", "inductive", "the paper's AP", "epochs")
    heads = (
        "model",
        "weights",
        *(f"training, {phase[0]}", *phase[1:]),
        *(f"scoring, {phase[0]}", *phase[1:]),
    )
    return Sheet(f"{title_of(dataset)}: speed and accuracy of each model", (*heads, *figures), 1, lines)


def _cells(speed: PhaseSpeed, epoch: float, released: str | None) -> list[str]:
    shares = (f"{speed.shares.neighbors:.0%}", f"{speed.shares.relative_encoding:.0%}")
    cells = [f"{epoch:,.1f}", f"{speed.step_p50:.3f}", f"{speed.times_tpnet:.2f}", *shares]
    return cells if released is None else [*cells, released]


def _released(row: Efficiency, phase: int) -> str:
    return f"{RELEASED[row.model][phase]:.3f}" if row.model in RELEASED else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
