"""Pictures of accuracies, as PNG and SVG: beside the paper's, by model, by variant, by width and by λ."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.accuracy_rows import METRICS, NEGATIVES, SETTINGS, Accuracy, only
from benchmarks.study_logs import title_of
from benchmarks.variants import WHOLE, decay_of, is_ablation, is_main, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
NAMES = {"ap": "AP", "auc": "AUC"}
COLORS = {"transductive": "tab:blue", "inductive": "tab:orange"}
MARKERS = {"transductive": "o", "inductive": "s"}
PAPER: dict[str, Any] = {"fmt": "D", "color": "0.3", "markerfacecolor": "none", "capsize": 3}
PLACES = [(setting, negatives) for setting in SETTINGS for negatives in NEGATIVES]


def draw_figures(rows: list[Accuracy], folder: Path) -> list[Path]:
    """Draw those figures that there is something to draw in."""
    mains = [row for row in rows if is_main(row.variant) and not row.is_heuristic]
    compared = [row.dataset for row in rows if len({one.variant for one in mains}) > 1]
    ablated = [row.dataset for row in rows if is_ablation(row.variant)]
    widths = [row.dataset for row in rows if width_of(row.variant) is not None]
    decays = [row.dataset for row in rows if decay_of(row.variant) is not None]
    return [
        *(_draw_mains(mains, folder / "accuracy") if mains else []),
        *_draw_each(rows, compared, folder / "models", _draw_models),
        *_draw_each(rows, ablated, folder / "ablations", _draw_ablations),
        *_draw_each(rows, widths, folder / "widths", _draw_widths),
        *_draw_each(rows, decays, folder / "decays", _draw_decays),
    ]


def _draw_mains(rows: list[Accuracy], path: Path) -> list[Path]:
    """Draw a line of pictures for each dataset and model: AP and AUC."""
    groups = list(dict.fromkeys((row.dataset, row.variant) for row in rows))
    figure = new_figure(11, 3.4 * len(groups))
    for group, line in zip(groups, figure.subplots(len(groups), len(METRICS), squeeze=False), strict=True):
        for metric, axes in zip(METRICS, line, strict=True):
            _draw_settings(
                axes, [row for row in rows if (row.dataset, row.variant, row.metric) == (*group, metric)]
            )
            axes.set(ylabel=f"test {NAMES[metric]}", title=_title(group, rows))
    return save_figure(figure, path)


def _draw_settings(axes: "Axes", rows: list[Accuracy]) -> None:
    """Draw our figures and the paper's, side by side in each setting."""
    _marks(
        axes, [(_place(row) - 0.1, row.mean, row.std) for row in rows], fmt="o", label=f"ours{_seeds(rows)}"
    )
    told = [(_place(row) + 0.1, row.paper.mean, row.paper.std) for row in rows if row.paper]
    _marks(axes, told, **PAPER, label="the paper, five seeds")
    axes.set_xticks(range(len(PLACES)), [negatives for _, negatives in PLACES])
    for number, setting in enumerate(SETTINGS):
        axes.annotate(
            f"{setting} events",
            (len(NEGATIVES) * (number + 0.5) - 0.5, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            color="0.4",
        )
    axes.axvline(len(NEGATIVES) - 0.5, color="0.8", linewidth=1)
    axes.set(xlabel="negatives", xlim=(-0.5, len(PLACES) - 0.5))
    axes.margins(y=0.15)
    axes.legend(fontsize="small")


def _title(group: tuple[str, str], rows: list[Accuracy]) -> str:
    epochs = max(row.epochs for row in rows if (row.dataset, row.variant) == group)
    return f"{title_of(group[0])}, {group[1]}, {epochs} epoch{'s' * (epochs > 1)}"


def _place(row: Accuracy) -> int:
    return PLACES.index((row.setting, row.negatives))


def _draw_models(axes: "Axes", dataset: str, rows: list[Accuracy]) -> None:
    """Draw a line for each model and heuristic: both kinds of events, and the paper's."""
    names = list(dict.fromkeys(row.variant for row in rows if is_main(row.variant)))
    for number, setting in enumerate(SETTINGS):
        found = [row for (_, name), row in only(rows, setting).items() if name in names]
        shift = 0.16 * (2 * number - 1)
        style = {"fmt": MARKERS[setting], "color": COLORS[setting]}
        marks = [(names.index(row.variant) + shift, row.mean, row.std) for row in found]
        _marks(axes, marks, is_upright=False, **style, label=f"{setting}{_seeds(found)}")
        told = [
            (names.index(row.variant) + shift, row.paper.mean, row.paper.std) for row in found if row.paper
        ]
        label = "the paper, five seeds" if number == 0 else None
        _marks(axes, told, is_upright=False, **PAPER, label=label)
    _name_rows(axes, names, dataset, margin=0.1)


def _draw_ablations(axes: "Axes", dataset: str, rows: list[Accuracy]) -> None:
    """Draw a line for each variant: both settings, and the paper's."""
    variants = list(
        dict.fromkeys(row.variant for row in rows if row.variant == WHOLE or is_ablation(row.variant))
    )
    for setting in SETTINGS:
        found = [row for (_, name), row in only(rows, setting).items() if name in variants]
        marks = [(variants.index(row.variant), row.mean, row.std) for row in found]
        style = {"fmt": MARKERS[setting], "color": COLORS[setting]}
        _marks(axes, marks, is_upright=False, **style, label=f"{setting}{_seeds(found)}")
        told = [
            (variants.index(row.variant) + 0.2, row.paper.mean, row.paper.std) for row in found if row.paper
        ]
        if setting == "transductive":
            _marks(axes, told, is_upright=False, **PAPER, label="the paper, transductive")
    _name_rows(axes, variants, dataset, margin=0.15)


def _name_rows(axes: "Axes", names: list[str], dataset: str, *, margin: float) -> None:
    """Name the rows, the first on top, and what is drawn in them."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="test AP, random negatives", title=title_of(dataset))
    axes.margins(y=margin)
    _legend_below(axes)


def _draw_widths(axes: "Axes", dataset: str, rows: list[Accuracy]) -> None:
    """Draw a curve for each setting; what the paper's rule for the width gives stands apart."""
    for setting in SETTINGS:
        found, color = only(rows, setting), COLORS[setting]
        swept = [row for (_, name), row in found.items() if width_of(name) is not None]
        marks = [(row.width, row.mean, row.std) for row in swept if row.width is not None]
        _marks(axes, marks, fmt=f"{MARKERS[setting]}-", color=color, label=f"{setting}{_seeds(swept)}")
        whole = found.get((dataset, WHOLE))
        if whole and whole.width is not None:
            by_rule = [(whole.width, whole.mean, whole.std)]
            label = f"{setting}, {whole.width} by the paper's rule"
            _marks(axes, by_rule, fmt="*", markersize=11, color=color, label=label)
        if whole and whole.paper:
            label = f"{setting}, the paper's, by its rule"
            axes.axhline(whole.paper.mean, color=color, linestyle="--", linewidth=1, label=label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set(
        xlabel="width of the projections, floats", ylabel="test AP, random negatives", title=title_of(dataset)
    )
    _legend_below(axes)


def _draw_decays(axes: "Axes", dataset: str, rows: list[Accuracy]) -> None:
    """Draw a curve for each setting, on which the preset's λ lies with the others."""
    for setting in SETTINGS:
        found = [row for row in only(rows, setting).values() if row.decay and _is_of_decays(row)]
        found.sort(key=lambda row: row.decay or 0.0)
        marks = [(row.decay or 0.0, row.mean, row.std) for row in found]
        style: dict[str, Any] = {"fmt": f"{MARKERS[setting]}-", "color": COLORS[setting]}
        _marks(axes, marks, **style, label=f"test, {setting}{_seeds(found)}")
        told = [(row.decay or 0.0, row.val, None) for row in found if row.val is not None]
        style |= {"fmt": f"{MARKERS[setting]}:", "markerfacecolor": "none"}
        _marks(axes, told, **style, label=f"validation, {setting}")
    axes.set_xscale("log")
    axes.set(xlabel="λ, per second", ylabel="AP, random negatives", title=title_of(dataset))
    _legend_below(axes)


def _is_of_decays(row: Accuracy) -> bool:
    return row.variant == WHOLE or decay_of(row.variant) is not None


def _draw_each(
    rows: list[Accuracy],
    datasets: Iterable[str],
    path: Path,
    draw: Callable[["Axes", str, list[Accuracy]], None],
) -> list[Path]:
    """Draw a picture for each dataset, two in a line."""
    names = list(dict.fromkeys(datasets))
    if not names:
        return []
    columns = min(2, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(7 * columns, 4.6 * lines)
    all_axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes, dataset in zip(all_axes, names, strict=False):
        draw(axes, dataset, [row for row in rows if row.dataset == dataset])
    for axes in all_axes[len(names) :]:
        axes.remove()
    return save_figure(figure, path)


def _marks(
    axes: "Axes",
    marks: Sequence[tuple[float, float, float | None]],
    *,
    is_upright: bool = True,
    **style: Any,  # noqa: ANN401 — whatever matplotlib takes
) -> None:
    """Place, value and spread of each; a single seed has none."""
    if not marks:
        return
    places, values, spreads = zip(*marks, strict=True)
    errors = [spread or 0.0 for spread in spreads] if any(spreads) else None
    if is_upright:
        axes.errorbar(places, values, yerr=errors, **({"capsize": 3} | style))
    else:
        axes.errorbar(values, places, xerr=errors, **({"capsize": 3} | style))
    axes.grid(visible=True, axis="y" if is_upright else "x", color="0.9")
    axes.set_axisbelow(True)


def _legend_below(axes: "Axes") -> None:
    """Place the legend below the axes, where it hides no mark."""
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _seeds(rows: Sequence[Accuracy]) -> str:
    counts = sorted({len(row.seeds) for row in rows})
    if not counts:
        return ""
    told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    return f", {told} seed{'s' * (counts[-1] > 1)}"


def new_figure(width: float, height: float) -> "Figure":
    # takes a second to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", path: Path) -> list[Path]:
    paths = [path.with_suffix(f".{name}") for name in FORMATS]
    for file in paths:
        figure.savefig(file, dpi=130)
    return paths
