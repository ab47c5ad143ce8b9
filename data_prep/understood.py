"""What was understood of raw files: said before anything is written, and refused where it is implausible."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Source
from data_prep.conversion import Conversion
from data_prep.layout import Roles
from data_prep.values import Rejected, TimeRule, is_text, parse_times
from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import SECONDS_PER_TICK
from tpnet_dist.events.unix_times import are_unix_times, date_of, duration

if TYPE_CHECKING:
    from data_prep.first_pass import FirstPass
    from data_prep.log_before import LogBefore

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Tell = Callable[[str], None]

MAX_YEARS, MIN_SECONDS, MANY_EVENTS = 80, 60.0, 1000
FEW_TIMES, SMALL_TIME = 20, 1e6
_SHOWN_VALUES, _SHOWN_NAMES, _LONGEST_VALUE = 3, 6, 24
_YEAR = 365.25 * 86400
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_PEOPLE = {
    *("user", "customer", "client", "buyer", "shopper", "reader", "viewer", "listener", "visitor"),
    *("reviewer", "member", "person", "author", "editor", "patient", "student", "player"),
}
_THINGS = {
    *("item", "product", "movie", "film", "song", "track", "artist", "book", "page", "article", "video"),
    *("restaurant", "shop", "store", "business", "ad", "advert", "course", "app", "subreddit", "post"),
    *("channel", "game", "hotel", "venue", "place", "recipe", "drug", "job", "repo", "thread"),
}


def say_columns(source: Source, job: Conversion, rule: TimeRule, tell: Tell) -> None:
    """Say which column is what, with the first values; refuse what its first rows show to be implausible."""
    roles, sample = source.roles, source.sample()
    tell(f"{source.name}: {source.about()}; {len(roles.names)} columns")
    for role, position, remark in _rows_of(roles, rule):
        name = roles.names[position]
        shown = name if roles.has_names else f"at position {name}"
        values = ", ".join(_shown(value) for value in sample[position][:_SHOWN_VALUES].to_pylist())
        tell(f"  {role:<12} {shown}{remark}: {values}")
    if len(roles.features) > _SHOWN_NAMES:
        tell(f"  {'':<12} … {len(roles.features):,} feature columns")
    if roles.unused:
        more = ", …" if len(roles.unused) > 2 * _SHOWN_NAMES else ""
        tell(f"  {'not used':<12} {', '.join(roles.unused[: 2 * _SHOWN_NAMES])}{more}")
    if rule.is_kept:
        return  # say_appended looks at what is new beside the log
    for doubt in (*_doubts_about_names(source, job), *_doubts_about_time(source, sample, job, rule)):
        _raise_or_tell(doubt, job, tell)


def say_log(first: "FirstPass", job: Conversion, tell: Tell) -> None:
    """Say times, span and ids of the whole log; refuse what is implausible."""
    rule, times = first.rule, first.times
    tick = 1e-9 if rule.is_dates else SECONDS_PER_TICK[rule.unit]
    low, high = times.lowest, times.highest
    ends = f"{low} to {high} {rule.unit}"
    if rule.is_dates or are_unix_times(low, high, tick):
        ends = f"{date_of(low * tick)} to {date_of(high * tick)}"
        ends += "" if rule.is_dates else f" ({_UNIT_NAMES[rule.unit]} since 1970)"
    step = "" if job.time_step is None else f"; replaced by their ranks times {job.time_step:,} s"
    tell(f"  {'times':<12} {ends}, a span of {duration((high - low) * tick)}{step}")
    if job.bipartite:
        tell(
            f"  {'ids':<12} two id spaces: {len(first.sources):,} sources, {len(first.destinations):,} "
            "destinations"
        )
    else:
        both = first.sources.num_on_both_sides
        tell(f"  {'ids':<12} one id space: {len(first.sources):,} nodes, {both:,} on both sides")
    name = job.inputs_name
    for doubt in _doubts_about_span(name, first.events, low, high, tick, rule, job):
        _raise_or_tell(doubt, job, tell)


def say_appended(first: "FirstPass", before: "LogBefore", job: Conversion, tell: Tell) -> None:
    """Say times and ids of events that are appended; refuse what is implausible beside the log."""
    rule, times, log = first.rule, first.times, before.manifest
    tick = 1e-9 if rule.is_dates else SECONDS_PER_TICK[rule.unit]
    low, high = times.lowest, times.highest
    ends = f"{low} to {high} {rule.unit}"
    if rule.is_dates or are_unix_times(low, high, tick):
        ends = f"{date_of(low * tick)} to {date_of(high * tick)}"
    end = low if times.log_end is None else times.log_end
    gap = f"{duration((low - end) * tick)} after" if low > end else "at the time of"
    tell(f"  {'times':<12} {ends}, the first {gap} the log's last")
    new = sum(len(ids) - ids.num_before for ids in before.maps)
    known = sum(int(np.count_nonzero(ids.degree[: ids.num_before])) for ids in before.maps)
    tell(f"  {'ids':<12} {known:,} of the log's {log.nodes:,} nodes, {new:,} new ones")
    for name, count in first.reading.num_gaps.items():
        tell(f"  {'missing':<12} {count:,} values of {name}, filled as in the log")
    for name, categories in first.reading.unknown_categories.items():
        tell(f"  {'new values':<12} of {name}: {', '.join(categories[:_SHOWN_NAMES])}; they become zeros")
    for doubt in _doubts_beside_log(first, before, (high - end) * tick, known):
        _raise_or_tell(doubt, job, tell)


def _doubts_beside_log(first: "FirstPass", before: "LogBefore", seconds: float, known: int) -> Iterator[str]:
    name, folder, rule, times = first.name, before.log.folder, first.rule, first.times
    if not rule.is_dates and (unit := _likelier_unit(times.lowest, times.highest, rule)):
        log = before.manifest
        if unit != rule.unit and are_unix_times(log.first_time, log.last_time, log.seconds_per_tick):
            yield (
                f"{name}: times such as {times.lowest} are taken as {_UNIT_NAMES[rule.unit]}, as those of "
                f"{folder} "
                f"are, but look like {_UNIT_NAMES[unit]} since 1970; write them in {_UNIT_NAMES[rule.unit]}, "
                "or "
                "--yes to take them as they are"
            )
            return
    if seconds > MAX_YEARS * _YEAR:
        yield (
            f"{name}: times up to {times.highest} are {duration(seconds)} after the last event of {folder}; "
            "correct them, or --yes to take them as they are"
        )
    if not known and first.events >= MANY_EVENTS:
        yield (
            f"{name}: none of its ids is one of the {before.manifest.nodes:,} of {folder}; check that it is "
            "of "
            "the same kind, or --yes to append it"
        )


def _raise_or_tell(doubt: str, job: Conversion, tell: Tell) -> None:
    if not job.accept_doubts:
        raise InputError(doubt)
    tell(f"  {'taken as is':<12} {doubt.rpartition(', or --yes')[0]}")


def _rows_of(roles: Roles, rule: TimeRule) -> Iterator[tuple[str, int, str]]:
    yield "source", roles.src, ""
    yield "destination", roles.dst, ""
    yield "time", roles.time, f" ({rule.format or _UNIT_NAMES.get(rule.unit, 'dates')})"
    if roles.label is not None:
        yield "label", roles.label, ""
    if roles.feature_row is not None:
        yield "feature row", roles.feature_row, ""
    for position in roles.features[:_SHOWN_NAMES]:
        yield "feature", position, ""


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _kind_of(name: str) -> str:
    """Return a column's kind by its name: user_id, UserID and userId are all a user."""
    lowered = name.strip().lower().replace("-", "_")
    for end in ("_id", "id", "_no", "_key", "s"):
        lowered = lowered.removesuffix(end) or lowered
    return lowered.strip("_")


def _doubts_about_names(source: Source, job: Conversion) -> Iterator[str]:
    roles = source.roles
    if job.bipartite or job.one_id_space or not roles.has_names:
        return
    src, dst = roles.names[roles.src], roles.names[roles.dst]
    if {_kind_of(src) in _PEOPLE, _kind_of(dst) in _THINGS} == {True} or (
        _kind_of(src) in _THINGS and _kind_of(dst) in _PEOPLE
    ):
        yield (
            f"{source.name}: columns {src!r} and {dst!r} look like two kinds of nodes, and {src} 7 would "
            "be the "
            f"same node as {dst} 7; pass --bipartite to keep them apart, or --one-id-space if equal ids are "
            "the same node, or --yes for the same"
        )


def _doubts_about_time(
    source: Source, sample: list[pa.Array], job: Conversion, rule: TimeRule
) -> Iterator[str]:
    roles = source.roles
    mine = _numbers(sample[roles.time], rule)
    if mine is None or not len(mine) or rule.is_dates:
        return
    if job.layout.time is None and len(np.unique(mine)) < FEW_TIMES and mine.max() < SMALL_TIME:
        candidates = [position for position in range(len(roles.names)) if position not in set(roles.used)]
        for position in candidates:
            if _is_better_time(_numbers(sample[position], TimeRule()), mine, by_name=roles.has_names):
                name, better = roles.names[roles.time], roles.names[position]
                yield (
                    f"{source.name}: column {name} is taken for the time, but its first {len(mine):,} rows "
                    "hold "
                    f"{len(np.unique(mine))} small values such as {_shown(sample[roles.time][0])}, while "
                    "column "
                    f"{better}, such as {_shown(sample[position][0])}, looks like a time; pass --time "
                    f"{better}, or "
                    f"--time {name}, or --yes to keep it"
                )
                return
    if job.time_step is None and (unit := _likelier_unit(mine.min(), mine.max(), rule)):
        yield _unit_doubt(source.name, mine.min(), mine.max(), rule, unit)


def _is_better_time(other: Numbers | None, mine: Numbers, *, by_name: bool) -> bool:
    if other is None or len(other) != len(mine) or len(np.unique(other)) <= len(np.unique(mine)):
        return False
    if any(are_unix_times(other.min(), other.max(), tick) for tick in SECONDS_PER_TICK.values()):
        return True
    # a column that is called time may be sorted by another one, such as a row number
    grows = len(other) > 2 and float((np.diff(other) >= 0).mean()) > 0.99
    return not by_name and grows and len(np.unique(other)) > FEW_TIMES


def _numbers(column: pa.Array, rule: TimeRule) -> Numbers | None:
    if not (is_text(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    try:
        return parse_times(column.filter(pc.is_valid(column)), rule)
    except Rejected:
        return None


def _doubts_about_span(
    name: str, events: int, low: float, high: float, tick: float, rule: TimeRule, job: Conversion
) -> Iterator[str]:
    if job.time_step is not None:
        return
    seconds = (high - low) * tick
    if not rule.is_dates and (unit := _likelier_unit(low, high, rule)):
        yield _unit_doubt(name, low, high, rule, unit)
    elif seconds > MAX_YEARS * _YEAR:
        remedy = (
            "correct the dates"
            if rule.is_dates
            else f"pass the --time-unit they are counted in (now {rule.unit}) or another --time column"
        )
        yield (
            f"{name}: times {low} to {high} span {duration(seconds)}, more than {MAX_YEARS} years; {remedy}, "
            "or --yes to take them as they are"
        )
    elif events > MANY_EVENTS and seconds < MIN_SECONDS:
        yield (
            f"{name}: {events:,} events span {seconds:,.6g} seconds, from {low} to {high}; name another "
            "column "
            f"with --time, pass the --time-unit they are counted in (now {rule.unit}) or, for years and "
            "other "
            "numbered periods, --time-step SECONDS, or --yes to take them as they are"
        )


def _likelier_unit(low: float, high: float, rule: TimeRule) -> str | None:
    """Return the unit by which numbers are dates of today, if they are none by the one that was said."""
    if are_unix_times(low, high, SECONDS_PER_TICK[rule.unit]):
        return None
    return next((unit for unit, tick in SECONDS_PER_TICK.items() if are_unix_times(low, high, tick)), None)


def _unit_doubt(name: str, low: float, high: float, rule: TimeRule, unit: str) -> str:
    tick = SECONDS_PER_TICK[unit]
    return (
        f"{name}: times such as {low} are taken as {_UNIT_NAMES[rule.unit]}, but look like "
        f"{_UNIT_NAMES[unit]} since "
        f"1970 ({date_of(low * tick)} to {date_of(high * tick)}); pass --time-unit {unit}, or --yes to "
        "take them "
        f"as {_UNIT_NAMES[rule.unit]}"
    )
