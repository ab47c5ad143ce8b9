"""A plan as people read it: tables, sentences, and the scaling curve as a figure."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.readable import readable_bytes
from tpnet_dist.sizing.plan_of import Plan
from tpnet_dist.sizing.rank_bytes import PLACES

PARTS = {
    "rows": "rows of its nodes",
    "borrowed": "rows of others it keeps",
    "neighbors": "neighbour index of its nodes",
    "clocks": "clocks of its rows",
    "features": "features, mapped from files",
    "weights": "weights, gradients, Adam",
    "step": "a step, at the least",
    "activations": "activations beyond that",
    "in_flight": "rows fetched ahead",
    "base": "process and libraries",
    "host_base": "the same on the host",
}
LIMITS = {
    "products": "matrix products",
    "memory": "memory bandwidth",
    "calls": "starting operations",
    "host": "planning on the host",
    "link": "the link between ranks",
}


def show_plan(plan: Plan, console: Console) -> None:
    log = plan.log
    console.print(
        f"{len(log):,} events, {log.num_nodes:,} nodes, width {plan.width}, on {plan.ranks} rank(s) of: "
        f"{plan.device.title}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(_bytes_table(plan))
    for place in plan.places:
        verdict = "fits" if place.is_enough else "does NOT fit"
        what = "a device" if place.place == "device" else "a host with all its ranks"
        console.print(
            f"{what}: {readable_bytes(place.needed)} of {readable_bytes(place.there)}: {verdict}",
            highlight=False,
            soft_wrap=True,
        )
    for line in _sentences(plan):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(_curve_table(plan))


def _bytes_table(plan: Plan) -> Table:
    table = Table("per rank", "where", box=None, padding=(0, 2, 0, 0))
    table.add_column("bytes", justify="right")
    for name, value in plan.sizes.parts():
        place = "host" if plan.device.is_host else PLACES.get(name, "device")
        if value:
            table.add_row(PARTS[name], place, readable_bytes(value))
    return table


def _sentences(plan: Plan) -> list[str]:
    lines = []
    if plan.remedies:
        lines.append(f"What would make it fit, each alone: {'; '.join(plan.remedies)}.")
    elif not plan.fits:
        lines.append(
            "No single change makes it fit: combine more ranks with a smaller memory.width or fewer hops."
        )
    if plan.largest:
        lines.append(f"Largest log of this kind that fits: about {three_digits(len(plan.largest)):,} events.")
    else:
        lines.append("No log fits: the model alone takes more than there is.")
    how = "counted from the log" if plan.is_counted else "expected for a random graph"
    lines.append(f"Rows exchanged by all ranks: {readable_bytes(plan.exchanged_bytes)} per batch ({how}).")
    if plan.is_batch_raised:
        lines.append(f"Batches are taken to be of {plan.batch_size:,} events, one for each rank.")
    step = plan.step
    parts = ", ".join(f"{LIMITS[name]} {1e3 * getattr(step, name):,.1f}" for name in LIMITS)
    lines.append(f"Step: {1e3 * step.seconds:,.1f} ms, limited by {LIMITS[step.bottleneck]}; in ms: {parts}.")
    share = f"{plan.train_share:.0%} of the events"
    lines.append(
        f"Epoch of {share}, {plan.steps_per_epoch:,} steps: {duration(plan.epoch_seconds)}, predicted, not "
        "measured."
    )
    return lines


def _curve_table(plan: Plan) -> Table:
    # without lines it fits a terminal of 80 columns
    table = Table(title="More ranks, random graph", title_justify="left", box=None)
    for heading in ("ranks", "batch", "events/s", "× 1 rank", "limited by", "on a device", "fits"):
        table.add_column(heading, justify="right")
    alone = plan.curve[0].events_per_second
    for point in plan.curve:
        table.add_row(
            str(point.ranks),
            f"{point.batch_size:,}",
            f"{point.events_per_second:,.0f}",
            f"{point.events_per_second / alone:.2f}",
            LIMITS[point.bottleneck],
            readable_bytes(point.device_bytes),
            "yes" if point.fits else "no",
        )
    return table


def draw_curve(plan: Plan, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ranks = [point.ranks for point in plan.curve]
    rates = [point.events_per_second for point in plan.curve]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    left.plot(ranks, rates, marker="o", label="predicted")
    left.plot(ranks, [rates[0] * number for number in ranks], "--", color="grey", label="linear growth")
    left.set(title="Training speed", ylabel="events per second", xlabel=_ranks_and_batches(plan))
    held = [point.device_bytes / 1e9 for point in plan.curve]
    right.plot(ranks, held, marker="s", label="needed by a rank")
    right.axhline(plan.device.memory_bytes / 1e9, linestyle="--", color="grey", label="memory of a device")
    right.set(title="Memory of a rank", ylabel="GB", xlabel="ranks")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.legend()
    # plain numbers: a log axis of less than a decade tells 6 × 10⁰
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("{x:g}")
    figure.suptitle(f"Predicted: {len(plan.log):,} events on {plan.device.title}")
    with atomic_write(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix.removeprefix("."))
    plt.close(figure)


def _ranks_and_batches(plan: Plan) -> str:
    sizes = [point.batch_size for point in plan.curve]
    if len(set(sizes)) == 1:
        return f"ranks, batches of {sizes[0]:,} events"
    return f"ranks, batches of {sizes[0]:,} events, above {sizes[0]:,} ranks of one for each"


def three_digits(number: int) -> int:
    """Round down to three digits."""
    unit: int = 10 ** max(0, len(str(number)) - 3)
    return number // unit * unit


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
