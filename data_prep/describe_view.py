"""Show a `LogSummary` to people: tables that fit 80 columns and a chart of events over time."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from data_prep.measure import LogSummary, ShardSummary, TimeHistogram
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.events.timescales import half_life
from tpnet_dist.events.unix_times import are_unix_times, date_of, duration

MAX_SHARD_ROWS, MAX_VERSION_ROWS, MAX_NAMES, MAX_LETTERS = 8, 10, 12, 20
LARGE_TIME_GROUP = 200
"""The default timestamp batch: a larger group of equal times is always cut by batching by events."""

_CHART_COLUMNS = 48
_CHART_ROWS = 5
_LEVELS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " ..::||##"


def print_summary(summary: LogSummary, console: Console) -> None:
    """Print overview, degrees, shards and the chart, in this order."""
    plain = console.options.ascii_only
    console.print(_overview(summary, plain=plain), "")
    if summary.preparation is not None:
        console.print(_columns(summary, summary.preparation), "")
    if len(summary.versions) > 1:
        console.print(_versions(summary), "")
    console.print(_degrees(summary), "")
    console.print(_shards(summary.shards, ellipsis="..." if plain else "…"), "")
    console.print(_chart(summary, _ASCII_LEVELS if plain else _LEVELS))
    if summary.largest_equal_time_group > LARGE_TIME_GROUP:
        group = f"largest group of equal times {summary.largest_equal_time_group:,} events"
        console.print("", Text(f"{group}: consider batching by timestamps", style="yellow"), sep="\n")


def _overview(summary: LogSummary, *, plain: bool) -> Table:
    table = _new_table("Overview", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for name, value, remark in _overview_rows(summary):
        remark = remark.replace("λ·span", "lambda * span") if plain else remark
        table.add_row(name, value, remark)
    return table


def _overview_rows(summary: LogSummary) -> Iterator[tuple[str, str, str]]:
    yield "events", f"{summary.events:,}", ""
    yield "nodes", f"{summary.nodes:,}", f"{summary.nodes_with_events:,} with events"
    yield "ids", summary.ids, summary.odd_ids
    yield "sources", f"{summary.sources:,}", "bipartite" if summary.bipartite else ""
    yield "destinations", f"{summary.destinations:,}", _on_both_sides(summary)
    yield from _time_rows(summary)
    yield "self-loops", f"{summary.self_loops:,}", _share(summary.self_loops, summary.events)
    yield "distinct edges", f"{summary.distinct_edges:,}", "ordered pairs"
    yield "repeated edges", f"{summary.repeated_edges:,}", _share(summary.repeated_edges, summary.events)
    yield "labels", "yes" if summary.has_labels else "none", ""
    yield "edge features", f"{summary.edge_feature_width:,}" if summary.edge_feature_width else "none", ""
    yield "node features", f"{summary.node_feature_width:,}" if summary.node_feature_width else "none", ""
    yield "bytes on disk", f"{summary.bytes_on_disk:,}", _binary_size(summary.bytes_on_disk)


def _on_both_sides(summary: LogSummary) -> str:
    return "" if summary.bipartite else f"{summary.nodes_on_both_sides:,} on both sides"


def _columns(summary: LogSummary, preparation: Preparation) -> Table:
    """Return a table of what the user's columns were taken for, their first values, and their files."""
    table = _new_table("Read from", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column(style="dim")
    unit = preparation.time_format or preparation.time_unit
    columns = {"source": preparation.src, "destination": preparation.dst}
    columns |= {"time": f"{preparation.time} ({unit})", "label": preparation.label or ""}
    for name, values in summary.first_values:
        role, _, feature = name.partition(" ")
        table.add_row(role, Text(columns.get(role, feature)), Text(_listed(values)))
    num_shown = sum(name.startswith("feature ") for name, _ in summary.first_values)
    if summary.edge_feature_width > num_shown:
        table.add_row("features", f"{summary.edge_feature_width - num_shown:,} more", "")
    if preparation.unused:
        table.add_row("not used", Text(_some(preparation.unused)), "")
    table.add_row("id spaces", "two" if summary.bipartite else "one", "")
    table.add_row("files", Text(_some([source.name for source in preparation.sources])), "")
    return table


def _listed(values: Sequence[object]) -> str:
    texts = (
        f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value) for value in values
    )
    return ", ".join(text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 2]}.." for text in texts)


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + rest


def _time_rows(summary: LogSummary) -> Iterator[tuple[str, str, str]]:
    dates = _dates(summary)
    for name, time, date in zip(
        ("first time", "last time"), (summary.first_time, summary.last_time), dates or ("", ""), strict=True
    ):
        yield name, f"{time:,}", f"{summary.time_unit}   {date}".rstrip()
    yield "span", duration(summary.span_seconds), ""
    for rate in summary.auto_decay:
        remark = f"half-life {half_life(rate)}, decay times span {rate * summary.span_seconds:.3g}"
        yield "memory.decay auto", f"{rate:g}", remark
    groups = (
        f"{summary.events_per_distinct_time:,.1f} events each, at most {summary.largest_equal_time_group:,}"
    )
    yield "distinct times", f"{summary.distinct_times:,}", groups


def _versions(summary: LogSummary) -> Table:
    """Return a table of what was converted and what each append made of it; of many versions the last
    ones."""
    table = _new_table("Versions")
    table.add_column("", no_wrap=True)
    for heading in ("events", "nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("log id", no_wrap=True)
    table.add_column("files")
    for number, version in list(enumerate(summary.versions))[-MAX_VERSION_ROWS:]:
        files = _some([source.name for source in version.sources]) if number else ""
        name = f"{number}" if number else "converted"
        table.add_row(name, f"{version.events:,}", f"{version.nodes:,}", version.log_id, Text(files))
    return table


def _degrees(summary: LogSummary) -> Table:
    """Show degree percentiles and, beside them, how full the fullest of 2, 4, 8 blocks of node ids is."""
    degree = summary.degree
    left = [("min", f"{degree.min:,}"), ("50 %", f"{degree.p50:,}"), ("90 %", f"{degree.p90:,}")]
    left += [("99 %", f"{degree.p99:,}"), ("max", f"{degree.max:,}"), ("mean", f"{degree.mean:,.2f}")]
    right = [(f"{load.blocks}", f"{load.largest_over_fair:.2f}") for load in summary.block_balance]
    table = _new_table("Degrees")
    table.add_column("nodes", no_wrap=True)
    table.add_column("events per node", justify="right", no_wrap=True)
    table.add_column("ranks", justify="right", no_wrap=True)
    table.add_column("fullest rank / fair share", justify="right", no_wrap=True)
    for percentile, load in zip_longest(left, right, fillvalue=("", "")):
        table.add_row(*percentile, *load)
    return table


def _shards(shards: tuple[ShardSummary, ...], ellipsis: str) -> Table:
    table = _new_table("Shards")
    table.add_column("file", no_wrap=True)
    table.add_column("events", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    for shard in shards[:MAX_SHARD_ROWS]:
        table.add_row(shard.file, f"{shard.rows:,}", f"{shard.bytes:,}")
    if rest := shards[MAX_SHARD_ROWS:]:
        rows, size = sum(shard.rows for shard in rest), sum(shard.bytes for shard in rest)
        table.add_row(f"{ellipsis} and {len(rest):,} more", f"{rows:,}", f"{size:,}", style="dim")
    return table


def _new_table(title: str, *, show_header: bool = True) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        show_header=show_header,
    )


def _chart(summary: LogSummary, levels: str) -> Text:
    """Draw bars over time; the left axis ends at the fullest bin, the lower one at the first and last
    time."""
    bars = _bars(summary.time_histogram, levels)
    peak = f"{max(summary.time_histogram.counts):,}"
    labels = [peak, *[""] * (_CHART_ROWS - 2), "0"]
    lines = [f"{label:>{len(peak)}} {bar}".rstrip() for label, bar in zip(labels, bars, strict=True)]
    lines.append(" " * (len(peak) + 1) + _axis(summary))
    return Text.assemble(("Events over time\n", "bold"), "\n".join(lines))


def _bars(histogram: TimeHistogram, levels: str) -> list[str]:
    """Return one string per chart row, top first; a bin with any event shows at least the lowest mark."""
    counts, steps = histogram.counts, len(levels) - 1
    peak = max(counts)
    columns = [counts[column * len(counts) // _CHART_COLUMNS] for column in range(_CHART_COLUMNS)]
    heights = [-(-count * _CHART_ROWS * steps // peak) for count in columns]
    return [
        "".join(levels[min(max(height - row * steps, 0), steps)] for height in heights)
        for row in reversed(range(_CHART_ROWS))
    ]


def _axis(summary: LogSummary) -> str:
    """Draw the first label at the left end, the last one ending at the right end if there is room."""
    unit = summary.time_unit
    first, last = _dates(summary) or (f"{summary.first_time:,} {unit}", f"{summary.last_time:,} {unit}")
    if first == last:
        return first
    return f"{first} {last:>{max(0, _CHART_COLUMNS - len(first) - 1)}}"


def _dates(summary: LogSummary) -> tuple[str, str] | None:
    """Return first and last time as UTC dates, or None if they are not likely to be Unix times."""
    ends = summary.first_time, summary.last_time
    if not are_unix_times(*ends, summary.seconds_per_tick):
        return None
    first, last = (date_of(time * summary.seconds_per_tick) for time in ends)
    return first, last


def _share(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return "< 0.01 %" if 0 < percent < 0.01 else f"{percent:.2f} %"


def _binary_size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
