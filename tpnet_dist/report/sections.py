"""The sections of a run's report: results, training, time and memory, data, settings."""

import shlex
from collections.abc import Sequence

from tpnet_dist.config.keys import defaults_for, values_of
from tpnet_dist.evaluation.results import Conditions
from tpnet_dist.report.line_charts import PARTS, loss_chart, metric_chart
from tpnet_dist.report.markup import (
    amount,
    duration,
    figure,
    folded,
    number,
    pairs,
    setting_value,
    size,
    table,
    tag,
    text,
)
from tpnet_dist.report.result_charts import result_chart
from tpnet_dist.report.result_tables import every_figure, ranking, six_settings
from tpnet_dist.report.run import Run
from tpnet_dist.report.series import KINDS, SETTINGS, Series, scoring_speed, training_speed
from tpnet_dist.report.time_charts import epoch_time_chart, phase_chart
from tpnet_dist.report.traces import EXCHANGE_PHASES, MODEL_PHASES
from tpnet_dist.training.metrics_file import mean_exchange
from tpnet_dist.training.run_log import flat

NO_PHASES = tag(
    "p",
    "Where the time of a step goes was not traced; training with <code>--profile 40</code> does so.",
    class_="note",
)


def results_section(run: Run) -> str:
    series, dataset = Series((run,)), run.recognition.dataset.key if run.recognition else None
    charts = charts_of(*(result_chart([series], metric, dataset) for metric in ("ap", "auc")))
    tables = six_settings(series, dataset) + ranking(series, run.mrr_negatives)
    content = charts + tables + every_figure(series)
    return _section("Results", content + _about_the_figures(run) + _not_evaluated(run)) if content else ""


def _about_the_figures(run: Run) -> str:
    said = [
        "AP and AUC are means over batches of events, as in the paper; weights are those of the best epoch."
    ]
    if run.recognition:
        found = run.recognition
        said.append(
            f"Recognised as the paper's {found.dataset.name} by {found.by}: its column is TPNet after up to "
            "100 epochs, mean and standard deviation of five runs."
        )
        said += [f"But {doubt}." for doubt in found.doubts]
    if run.results and run.results.baselines:
        said.append(
            "EdgeBank calls likely what it has seen before: all edges so far, or those of the latest time "
            "window."
        )
    return tag("p", text(" ".join(said)), class_="note")


def _not_evaluated(run: Run) -> str:
    """What a reader may miss, and how to get it: training evaluates what its settings ask for."""
    series = Series((run,))
    missing = [
        f"{kind} negatives" for kind in KINDS if not series.figure("test", SETTINGS[0], kind, "ap")
    ] + ["EdgeBank"] * (not (run.results and run.results.baselines))
    if not missing:
        return ""
    asked = f"--negatives {' '.join(KINDS)} --baseline edgebank --save"
    if run.mrr_negatives:
        # what is saved replaces what was saved before
        asked = f"--mrr-negatives {run.mrr_negatives} {asked}"
    command = f"python -m tpnet_dist.evaluate {shlex.quote(str(run.folder))} {asked}"
    said = (
        f"Not evaluated: {', '.join(missing)}. They will be on this page after {tag('code', text(command))}."
    )
    return tag("p", said, class_="note")


def training_section(run: Run) -> str:
    curves, each = run.curves, run.by_seed().values()
    best = [int(results.best_epoch) for results in each if results.best_epoch is not None]
    drawn = charts_of(
        loss_chart(curves),
        *(metric_chart(curves, metric, best) for metric in ("ap", "auc")),
        epoch_time_chart(curves),
    )
    return _section("Training", drawn + _epochs_table(run)) if drawn else ""


def _epochs_table(run: Run) -> str:
    """The same as the curves, for those who do not see them."""
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
    groups = []
    for seed, curve in run.curves.by_seed.items():
        rows = [
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
        return ""
    return folded("Every epoch as a table", table("By epoch", ["epoch", "loss", *heads], groups, "epochs"))


def costs_section(run: Run) -> str:
    """Speed, phases, exchange, memory: what the run stored of them."""
    facts = [*_speed_facts(run), *_other_facts(run)]
    content = (pairs("Time and memory", facts) if facts else "") + charts_of(phase_chart(run.phases))
    return _section("Time and memory", content + (_phase_table(run) or NO_PHASES)) if content else ""


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
        ("rows between ranks, in training", _exchanged(run)),
        ("epochs", _said(results.mean.epochs_run, "") if results else None),
        ("training time", _clock(run, "training")),
        ("evaluation time", _clock(run, "evaluation")),
    ]
    return [(what, value) for what, value in found if value is not None]


def _ranks(conditions: Conditions) -> str:
    """Runs of earlier releases do not say on what device."""
    where = {"cpu": " on CPU cores", "cuda": " on GPUs"}.get(conditions.device or "", "")
    return amount(conditions.ranks) + where


def _memory_by_rank(conditions: Conditions) -> str | None:
    by_rank = conditions.peak_memory_bytes_by_rank
    return " · ".join(map(size, by_rank)) if by_rank and len(by_rank) > 1 else None


def _exchanged(run: Run) -> str | None:
    """Over all ranks, mean of the epochs so far; runs on one rank exchange nothing."""
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
    """Numbers that a later release stores are shown under their names."""
    return [
        (text(name.replace("_", " ").replace("/", ", ")), text(setting_value(value)))
        for name, value in (flat(run.results.others) if run.results else {}).items()
    ]


def _phase_table(run: Run) -> str:
    if not run.phases:
        return ""
    groups = []
    for side, names in (("Model", MODEL_PHASES), ("Exchange, in a thread of its own", EXCHANGE_PHASES)):
        rows = [
            [text(title), *(number(1e3 * phases.seconds[phase], 2) for phases in run.phases)]
            for phase, title in names.items()
        ]
        groups.append((side, rows))
    heads = ["phase", *(f"rank {phases.rank}" for phases in run.phases)]
    return folded("Phases as a table", table("Milliseconds per step", heads, groups, "phases"))


def data_section(run: Run) -> str:
    log, config = run.log, run.config.data
    facts: list[tuple[str, str]] = [("data folder", text(log.folder or "none"))]
    if log.manifest is None:
        return _section(
            "Data",
            tag("p", text(f"Of the log nothing more is known: {log.why_unknown}.")) + pairs("Data", facts),
        )
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
        ("log id", tag("code", text(manifest.log_id))),
    ]
    return _section("Data", pairs("Data", facts))


def settings_section(run: Run) -> str:
    """What was chosen, and, folded, everything."""
    values, defaults = values_of(run.config), defaults_for(run.config)
    changed = [
        (text(key), tag("code", text(setting_value(value))))
        for key, value in values.items()
        if value != defaults[key]
    ]
    chosen = pairs("Settings", changed) if changed else tag("p", "Defaults throughout.")
    rows: Sequence[Sequence[str]] = [
        [
            tag("code", text(key)),
            tag("code", text(setting_value(value))),
            "" if value == defaults[key] else tag("code", text(setting_value(defaults[key]))),
        ]
        for key, value in values.items()
    ]
    everything = table("Every setting", ["key", "value", "default, where another"], [("", rows)], "words")
    said = tag("p", "Where they differ from the defaults:", class_="note") if changed else ""
    return _section("Settings", said + chosen + folded("Every setting", everything))


def charts_of(*charts: str) -> str:
    drawn = [chart for chart in charts if chart]
    return tag("div", *drawn, class_="charts") if drawn else ""


def _section(title: str, content: str) -> str:
    return tag("section", tag("h2", text(title)), content)


def _said(value: float | None, unit: str) -> str | None:
    return None if value is None else amount(value) + unit
