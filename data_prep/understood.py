"""What was understood of raw files: said before anything is written, and refused where it is implausible."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Source
from data_prep.columns import is_of_people, is_of_things
from data_prep.conversion import Conversion
from data_prep.layout import Roles
from data_prep.values import Rejected, TimeRule, is_text, kind_of_ids, na_ids, parse_signed_times, parse_times
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
_FEW_ROWS = 10
_SHOWN_VALUES, _SHOWN_NAMES, _LONGEST_VALUE = 3, 6, 24
_YEAR = 365.25 * 86400
_PERIODS = {"days": 86400, "hours": 3600}
_EARLIEST, _LATEST = 20 * _YEAR, 80 * _YEAR
"""1990 and 2050 in seconds since 1970. Numbers of later days may be seconds of working hours."""
_WHOLE_WITH_POINT = r"^\s*-?\d+\.0+\s*$"
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def say_columns(sources: Sequence[Source], job: Conversion, rule: TimeRule, tell: Tell) -> None:
    """Say which column is what, with the first values; refuse what the first rows show to be implausible."""
    source = sources[0]
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
        tell(f"  {'not used':<12} {_some(roles.unused)}")
    if len(sources) > 1:
        tell(f"  {'and':<12} {len(sources) - 1:,} more, to {sources[-1].name}")
    known = set(roles.names)
    for other in sources[1:] if roles.has_names else ():
        if further := [name for name in other.roles.unused if name not in known]:
            tell(f"  {'not used':<12} {_some(further)}, in {other.name}")
            known |= set(further)
    if rule.is_kept:
        return  # say_appended looks at what is new beside the log
    for doubt in (
        *_doubts_about_names(source, job),
        *_doubts_about_ids(source, sample, job),
        *_doubts_about_time(source, sample, job, rule),
    ):
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
        shared = first.sources.num_shared_with(first.destinations)
        tell(
            f"  {'ids':<12} two id spaces: {len(first.sources):,} sources, {len(first.destinations):,} "
            f"destinations, {shared:,} ids on both sides are two nodes each"
        )
    else:
        both = first.sources.num_on_both_sides
        tell(f"  {'ids':<12} one id space: {len(first.sources):,} nodes, {both:,} on both sides")
    _say_kinds(first, tell)
    name = job.inputs_name
    for doubt in _doubts_about_span(name, first.events, low, high, tick, rule, job):
        _raise_or_tell(doubt, job, tell)


def _say_kinds(first: "FirstPass", tell: Tell) -> None:
    """Say which ids are other than one might expect."""
    spaces = {" of sources": first.sources, " of destinations": first.destinations}
    if first.sources is first.destinations:
        spaces = {"": first.sources}
    for which, ids in spaces.items():
        if words := na_ids(new := ids.raw[ids.num_before :]):
            tell(f"  {'taken as is':<12} ids{which} that may stand for missing ones: {', '.join(words)}")
        kind, few = kind_of_ids(new)
        if few and not ids.num_before:
            tell(f"  {'ids':<12} {kind}{which}: {few}")


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
    _say_kinds(first, tell)
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


def _some(names: list[str]) -> str:
    most = 2 * _SHOWN_NAMES
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _doubts_about_names(source: Source, job: Conversion) -> Iterator[str]:
    roles = source.roles
    if job.bipartite or job.one_id_space or not roles.has_names:
        return
    src, dst = roles.names[roles.src], roles.names[roles.dst]
    if (is_of_people(src) and is_of_things(dst)) or (is_of_things(src) and is_of_people(dst)):
        yield (
            f"{source.name}: columns {src!r} and {dst!r} look like two kinds of nodes, and {src} 7 would "
            "be the "
            f"same node as {dst} 7; pass --bipartite to keep them apart, or --one-id-space if equal ids are "
            "the same node, or --yes for the same"
        )


def _doubts_about_ids(source: Source, sample: list[pa.Array], job: Conversion) -> Iterator[str]:
    """Text such as 1.0 is what programs make of whole numbers when one of a column is missing, and numbers
    of rows are what they write before the first column."""
    roles = source.roles
    if job.layout.src is None and not roles.has_names and roles.unused:
        numbers = _numbers(sample[roles.src], TimeRule())
        if numbers is not None and len(numbers) >= _FEW_ROWS and (np.diff(numbers) == 1).all():
            yield (
                f"{source.name}: column {roles.names[roles.src]} is taken for the source, but numbers the "
                f"rows from {numbers[0]} on; name the columns with --src, --dst and --time, or --yes to "
                "keep it"
            )
    for position in (roles.src, roles.dst):
        ids = sample[position].drop_null()
        if not is_text(ids.type) or not len(ids):
            continue
        if pc.all(pc.match_substring_regex(pc.cast(ids, pa.string()), _WHOLE_WITH_POINT)).as_py():
            yield (
                f"{source.name}: ids of column {roles.names[position]} such as {ids[0]} are taken as "
                "text, so that 1.0 and 1 are two nodes; write them as whole numbers, or --yes to take them "
                "as they are"
            )


def _doubts_about_time(
    source: Source, sample: list[pa.Array], job: Conversion, rule: TimeRule
) -> Iterator[str]:
    roles = source.roles
    mine = _numbers(sample[roles.time], rule, parse_signed_times)  # a rating may be below zero
    if mine is None or not len(mine) or rule.is_dates:
        return
    if job.layout.time is None and (better := _better_time(roles, sample, mine)) is not None:
        name, other = roles.names[roles.time], roles.names[better]
        form = "" if _numbers(sample[better], TimeRule()) is not None else " --time-unit iso"
        yield (
            f"{source.name}: column {name} is taken for the time, but its first {len(mine):,} rows hold "
            f"{len(np.unique(mine)):,} small values such as {_shown(sample[roles.time][0])}, while column "
            f"{other}, such as {_shown(sample[better][0])}, looks like a time; pass --time {other}{form}, or "
            f"--time {name}, or --yes to keep it"
        )
    elif job.time_step is None and (unit := _likelier_unit(mine.min(), mine.max(), rule)):
        yield _unit_doubt(source.name, mine.min(), mine.max(), rule, unit)
    elif job.time_step is None and _are_calendar_days(mine):
        yield (
            f"{source.name}: times such as {mine[0]} are taken as {_UNIT_NAMES[rule.unit]}, but look like "
            f"days written as numbers; pass --time-format %Y%m%d, or --yes to take them as "
            f"{_UNIT_NAMES[rule.unit]}"
        )


def _better_time(roles: Roles, sample: list[pa.Array], mine: Numbers) -> int | None:
    """Find a column that nobody uses and that looks more like a time than the one taken for it."""
    is_few = len(np.unique(mine)) < FEW_TIMES and mine.max() < SMALL_TIME
    # a column that is called time may count from the first event
    is_unknown = not roles.has_names and not _are_dates(mine)
    if not (is_few or is_unknown):
        return None
    for position in sorted(set(range(len(roles.names))) - set(roles.used)):
        numbers = _numbers(sample[position], TimeRule())
        other = _numbers(sample[position], TimeRule(unit="iso")) if numbers is None else numbers
        if other is None or len(other) != len(mine) or len(np.unique(other)) < 2:
            continue
        if numbers is None or _are_dates(other):
            return position
        # a column that is called time may be sorted by another one, such as a row number
        grows = len(other) > 2 and float((np.diff(other) >= 0).mean()) > 0.99
        if is_few and not roles.has_names and grows and len(np.unique(other)) > FEW_TIMES:
            return position
    return None


def _are_dates(times: Numbers) -> bool:
    return any(are_unix_times(times.min(), times.max(), tick) for tick in SECONDS_PER_TICK.values())


def _are_calendar_days(times: Numbers) -> bool:
    """Return whether times are whole numbers such as 20240131, all of them days."""
    if times.min() < 19000101 or times.max() > 21001231 or len(times) < 2:
        return False
    days = pa.array(np.unique(times).astype(np.int64)).cast(pa.string())
    parsed = pc.strptime(days, format="%Y%m%d", unit="s", error_is_null=True)
    return int(parsed.null_count) == 0


def _numbers(
    column: pa.Array, rule: TimeRule, parse: Callable[[pa.Array, TimeRule], Numbers] = parse_times
) -> Numbers | None:
    kind = column.type
    tests = (is_text, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date)
    if not any(test(kind) for test in tests):
        return None
    try:
        return parse(column.filter(pc.is_valid(column)), rule)
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
    elif rule.unit == "s" and (period := _likely_period(events, low, high)):
        size = _PERIODS[period]
        first, last = (date_of(time * size)[:10] for time in (low, high))
        yield (
            f"{name}: times {low} to {high} of {events:,} events are taken as seconds, but look like "
            f"{period} since 1970 ({first} to {last}); multiply them by {size}, or --yes to take them as "
            "seconds"
        )
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


def _likely_period(events: int, low: float, high: float) -> str | None:
    """Return the period that numbers are likely to count since 1970, taken for seconds: a day or an hour has
    several events, a second hardly one; and seconds that begin with a log do not begin so late. Dates written
    as YYYYMM or YYMMDD are numbers of this size too, and count nothing."""
    if events < max(MANY_EVENTS, 2 * (high - low + 1)) or all(_may_be_written(time) for time in (low, high)):
        return None
    dates = {name: (low * size, high * size) for name, size in _PERIODS.items()}
    return next((name for name, (first, last) in dates.items() if _EARLIEST <= first <= last < _LATEST), None)


def _may_be_written(date: float) -> bool:
    """Whether six digits end as a month does, or as a month and a day."""
    rest, last = divmod(int(date), 100)
    return 1000 <= rest < 10_000 and (1 <= last <= 12 or (1 <= last <= 31 and 1 <= rest % 100 <= 12))


def _unit_doubt(name: str, low: float, high: float, rule: TimeRule, unit: str) -> str:
    tick = SECONDS_PER_TICK[unit]
    return (
        f"{name}: times such as {low} are taken as {_UNIT_NAMES[rule.unit]}, but look like "
        f"{_UNIT_NAMES[unit]} since "
        f"1970 ({date_of(low * tick)} to {date_of(high * tick)}); pass --time-unit {unit}, or --yes to "
        "take them "
        f"as {_UNIT_NAMES[rule.unit]}"
    )
