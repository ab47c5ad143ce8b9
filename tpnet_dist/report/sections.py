"""The sections of a run's report: results, training, time and memory, data, settings."""

import shlex

from tpnet_dist.config.keys import defaults_for, values_of
from tpnet_dist.evaluation.results import Conditions
from tpnet_dist.report.blocks import (
    Block,
    Cell,
    Facts,
    Folded,
    Paragraph,
    Rows,
    Section,
    Table,
    Text,
    charts_of,
    present,
)
from tpnet_dist.report.line_charts import PARTS, loss_chart, metric_chart
from tpnet_dist.report.numbers import amount, duration, figure, number, setting_value, size
from tpnet_dist.report.result_charts import result_chart
from tpnet_dist.report.result_tables import every_figure, ranking, six_settings
from tpnet_dist.report.run import Run
from tpnet_dist.report.series import KINDS, SETTINGS, Series, scoring_speed, training_speed
from tpnet_dist.report.time_charts import epoch_time_chart, phase_chart
from tpnet_dist.report.traces import EXCHANGE_PHASES, MODEL_PHASES
from tpnet_dist.training.metrics_file import mean_exchange
from tpnet_dist.training.run_log import flat

NO_PHASES = Paragraph(
    [
        "Where the time of a step goes was not traced; training with ",
        Text("--profile 40", is_code=True),
        " does so.",
    ]
)


def sections(run: Run) -> list[Section]:
    """Return the sections that have something to show."""
    every = (results_section, training_section, costs_section, data_section, settings_section)
    return [section for make in every if (section := make(run)) is not None]


def results_section(run: Run) -> Section | None:
    series, dataset = Series((run,)), run.recognition.dataset.key if run.recognition else None
    shown = [
        *charts_of(*(result_chart([series], metric, dataset) for metric in ("ap", "auc"))),
        *present(six_settings(series, dataset), ranking(series, run.mrr_negatives), every_figure(series)),
    ]
    if not shown:
        return None
    return Section("Results", [*shown, _about_the_figures(run), *present(_not_evaluated(run))])


def _about_the_figures(run: Run) -> Paragraph:
    said = [
        "AP and AUC are means over batches of events, as in the paper; weights are those of the best epoch."
    ]
    if run.recognition:
        found = run.recognition
        said.append(
            f"Recognised as the paper's {found.dataset.name} by {found.by}: its column is "
            f"{run.config.model.title} after up to 100 epochs, mean and standard deviation of five runs."
        )
        said += [f"But {doubt}." for doubt in found.doubts]
    if run.results and run.results.baselines:
        said.append(
            "EdgeBank calls likely what it has seen before: all edges so far, those of the latest time "
            "window, or by the best of its four modes, which is the paper's."
        )
    return Paragraph([" ".join(said)])


def _not_evaluated(run: Run) -> Paragraph | None:
    """Say what a reader may miss, and how to get it: training evaluates what its settings ask for."""
    series = Series((run,))
    missing = [
        f"{kind} negatives" for kind in KINDS if not series.figure("test", SETTINGS[0], kind, "ap")
    ] + ["EdgeBank"] * (not (run.results and run.results.baselines))
    if not missing:
        return None
    asked = f"--negatives {' '.join(KINDS)} --baseline edgebank --save"
    if run.mrr_negatives:
        # what is saved replaces what was saved before
        asked = f"--mrr-negatives {run.mrr_negatives} {asked}"
    command = f"python -m tpnet_dist.evaluate {shlex.quote(str(run.folder))} {asked}"
    said = f"Not evaluated: {', '.join(missing)}. They will be on this page after "
    return Paragraph([said, Text(command, is_code=True), "."])


def training_section(run: Run) -> Section | None:
    curves, each = run.curves, run.by_seed().values()
    best = [int(results.best_epoch) for results in each if results.best_epoch is not None]
    drawn = charts_of(
        loss_chart(curves),
        *(metric_chart(curves, metric, best) for metric in ("ap", "auc")),
        epoch_time_chart(curves),
    )
    return Section("Training", [*drawn, *present(_epochs_table(run))]) if drawn else None


def _epochs_table(run: Run) -> Folded | None:
    """Return the figures of the curves as a table, for those who do not see them."""
    columns = [(part, setting, metric) for metric in ("ap", "auc") for part in PARTS for setting in SETTINGS]
    shown = [
        column
        for column in columns
        if any(
            curve.figure(epoch, *column) is not None
            for curve in run.curves.by_seed.values()
            for epoch in curve.epochs
        )
    ]
    groups: list[tuple[str, Rows]] = []
    for seed, curve in run.curves.by_seed.items():
        rows: list[list[Cell]] = [
            [
                str(epoch),
                figure(line.train_loss),
                *(figure(curve.figure(epoch, *column)) for column in shown),
            ]
            for epoch, line in sorted(curve.epochs.items())
        ]
        groups.append((f"seed {seed}", rows))
    heads = [f"{metric.upper()}, {PARTS[part]}, {setting}" for part, setting, metric in shown]
    if not any(rows for _, rows in groups):
        return None
    return Folded("Every epoch as a table", Table("By epoch", ["epoch", "loss", *heads], groups, "epochs"))


def costs_section(run: Run) -> Section | None:
    """Show speed, phases, exchange, memory: what the run stored of them."""
    facts = [*_speed_facts(run), *_other_facts(run)]
    shown = [
        *present(Facts("Time and memory", facts) if facts else None),
        *charts_of(phase_chart(run.phases)),
    ]
    return Section("Time and memory", [*shown, _phase_table(run) or NO_PHASES]) if shown else None


def _speed_facts(run: Run) -> list[tuple[str, str]]:
    results = run.results
    conditions = results.conditions if results else None
    peak = conditions.peak_memory_bytes if conditions else None
    found: list[tuple[str, str | None]] = [
        ("ranks", _ranks(conditions) if conditions else None),
        ("training, all ranks", _said(training_speed(results), " events/s") if results else None),
        ("scoring, all ranks", _said(scoring_speed(results), " events/s") if results else None),
        ("peak memory, largest rank", size(peak) if peak else None),
        ("peak memory, by rank", _memory_by_rank(conditions) if conditions else None),
        ("reserved on GPUs, by rank", _reserved_by_rank(conditions) if conditions else None),
        ("rows between ranks, in training", _exchanged(run)),
        ("epochs", _said(results.mean.epochs_run, "") if results else None),
        ("training time", _clock(run, "training")),
        ("evaluation time", _clock(run, "evaluation")),
    ]
    return [(what, value) for what, value in found if value is not None]


def _ranks(conditions: Conditions) -> str:
    """Return the number of ranks and their device, which runs of earlier releases do not say."""
    where = {"cpu": " on CPU cores", "cuda": " on GPUs"}.get(conditions.device or "", "")
    return amount(conditions.ranks) + where


def _memory_by_rank(conditions: Conditions) -> str | None:
    by_rank = conditions.peak_memory_bytes_by_rank
    return " · ".join(map(size, by_rank)) if by_rank and len(by_rank) > 1 else None


def _reserved_by_rank(conditions: Conditions) -> str | None:
    """Return what torch took of each GPU, of which tensors held the peak memory."""
    by_rank = conditions.peak_reserved_bytes_by_rank
    return " · ".join(map(size, by_rank)) if by_rank else None


def _exchanged(run: Run) -> str | None:
    """Return what all ranks exchanged, mean of the epochs so far; runs on one rank exchange nothing."""
    found = mean_exchange(run.curves.epoch_lines()) or (run.results.mean.exchange if run.results else None)
    if not found:
        return None
    held = f"{found.remote_rows_held:.0%} of other ranks' rows were held"
    return f"{size(found.bytes_per_event)} per event; {held}"


def _clock(run: Run, what: str) -> str | None:
    times = [time for curve in run.curves.by_seed.values() for time in curve.times.values()]
    seconds = sum(getattr(time, what) for time in times)
    return duration(seconds) if seconds else None


def _other_facts(run: Run) -> list[tuple[str, str]]:
    """Return numbers that a later release stores, under their names."""
    return [
        (name.replace("_", " ").replace("/", ", "), setting_value(value))
        for name, value in (flat(run.results.others) if run.results else {}).items()
    ]


def _phase_table(run: Run) -> Folded | None:
    if not run.phases:
        return None
    groups: list[tuple[str, Rows]] = []
    for side, names in (("Model", MODEL_PHASES), ("Exchange, in a thread of its own", EXCHANGE_PHASES)):
        rows: list[list[Cell]] = [
            [title, *(number(1e3 * phases.seconds[phase], 2) for phases in run.phases)]
            for phase, title in names.items()
        ]
        groups.append((side, rows))
    heads = ["phase", *(f"rank {phases.rank}" for phases in run.phases)]
    return Folded("Phases as a table", Table("Milliseconds per step", heads, groups, "phases"))


def data_section(run: Run) -> Section:
    log, config = run.log, run.config.data
    facts: list[tuple[str, Cell]] = [("data folder", log.folder or "none")]
    if log.manifest is None:
        unknown = Paragraph([f"Of the log nothing more is known: {log.why_unknown}."], kind="")
        return Section("Data", [unknown, Facts("Data", facts)])
    manifest = log.manifest
    span = (manifest.last_time - manifest.first_time) * manifest.seconds_per_tick
    facts += [
        ("events", f"{manifest.events:,}"),
        ("nodes", f"{manifest.nodes:,}"),
        ("events per node, mean", amount(2 * manifest.events / max(manifest.nodes, 1))),
        ("time span", duration(span)),
        ("kinds of nodes", "two: sources and destinations" if manifest.bipartite else "one"),
        ("edge features", str(manifest.edge_features.width) if manifest.edge_features else "none"),
        ("node features", str(manifest.node_features.width) if manifest.node_features else "none"),
        ("validation and test", f"{config.val_share:.0%}, {config.test_share:.0%}"),
        ("nodes kept out of training", f"{config.new_node_share:.0%}"),
        ("on disk", size(sum(file.bytes for file in manifest.files()))),
        ("log id", Text(manifest.log_id, is_code=True)),
    ]
    return Section("Data", [Facts("Data", facts)])


def settings_section(run: Run) -> Section:
    """Show the settings that were chosen, and, folded, all of them."""
    values, defaults = values_of(run.config), defaults_for(run.config)
    shown = {key: Text(setting_value(value), is_code=True) for key, value in values.items()}
    changed = [key for key, value in values.items() if value != defaults[key]]
    rows: list[list[Cell]] = [
        [
            Text(key, is_code=True),
            value,
            Text(setting_value(defaults[key]), is_code=True) if key in changed else "",
        ]
        for key, value in shown.items()
    ]
    everything = Table("Every setting", ["key", "value", "default, where another"], [("", rows)], "text")
    chosen: list[Block] = [Paragraph(["Defaults throughout."], kind="")]
    if changed:
        facts = Facts("Settings", [(key, shown[key]) for key in changed])
        chosen = [Paragraph(["Where they differ from the defaults:"]), facts]
    return Section("Settings", [*chosen, Folded("Every setting", everything)])


def _said(value: float | None, unit: str) -> str | None:
    return None if value is None else amount(value) + unit
