"""Loss and AP over the epochs, as a picture beside the run's metrics."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tpnet_dist.training.run_log import METRICS_NAME, flat

PLOT_NAME = "training.png"


def plot_run(run: Path) -> Path:
    """Draw what `metrics.jsonl` holds of finished epochs."""
    # takes a second to import, and a run does without until its end
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes, ap_axes = figure.subplots(1, 2)
    for seed, lines in _epochs_by_seed(run / METRICS_NAME).items():
        epochs = [line["epoch"] for line in lines]
        loss_axes.plot(epochs, [line["train_loss"] for line in lines], marker=".", label=f"seed {seed}")
        for name in _ap_names(lines[0]):
            label = name.removesuffix("/ap").replace("/", ", ") + (f", seed {seed}" if seed else "")
            ap_axes.plot(epochs, [flat(line)[name] for line in lines], marker=".", label=label)
    loss_axes.set(xlabel="epoch", ylabel="loss", title="training loss")
    ap_axes.set(xlabel="epoch", ylabel="average precision", title="AP, mean over batches")
    ap_axes.legend(fontsize="small")
    for axes in (loss_axes, ap_axes):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    path = run / PLOT_NAME
    figure.savefig(path, dpi=120)
    return path


def _epochs_by_seed(metrics: Path) -> dict[int, list[dict[str, Any]]]:
    """An epoch repeated after a restart counts once, as it was last."""
    found: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for text in metrics.read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "eval":
            found[line["seed"]][line["epoch"]] = line
    return {seed: [epochs[epoch] for epoch in sorted(epochs)] for seed, epochs in found.items()}


def _ap_names(line: dict[str, Any]) -> list[str]:
    return [name for name in flat(line) if name.endswith("/ap")]
