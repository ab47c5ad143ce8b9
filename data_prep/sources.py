"""The sources of a conversion: each input, by what it holds."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from data_prep.chunk import Source
from data_prep.conversion import Conversion
from data_prep.places import Place, places_of
from data_prep.raw_files import first_bytes, is_compressed
from data_prep.table_readers import IpcReader, JsonLinesReader, ParquetReader, TableReader, WithPartitions
from data_prep.table_source import TableSource
from data_prep.text_source import TextSource
from data_prep.values import NoEvents
from tpnet_dist.errors import InputError
from tpnet_dist.events.preparation import TimeUnit

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_ARROW_STREAM = b"\xff\xff\xff\xff"
_UTF16 = ("text in UTF-16", "convert it, for example with: iconv -f utf-16 -t utf-8")
_OTHER_FORMS = {
    b"PK\x03\x04": ("a zip archive or a spreadsheet", "unpack it, or save the sheet as CSV"),
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
}
"""How files begin that are not read."""


def open_sources(
    job: Conversion, spool: Path, tables: Sequence[TableReader] = (), *, may_be_empty: bool = False
) -> list[Source]:
    """Open all inputs, in order, with the same columns in the same roles. `spool`: where standard input is
    kept. `tables`: sources in memory, instead. `may_be_empty`: leave those without rows out, rather than
    refuse them."""
    makers: list[Callable[[], Source]] = [
        partial(TableSource, table, job.layout, job.features.one_hot) for table in tables
    ]
    makers += [partial(_open, place, job) for place in places_of(job.inputs, spool)]
    sources: list[Source] = []
    for make in makers:
        try:
            sources.append(make())
        except NoEvents:
            if not may_be_empty:
                raise
    for source in sources[1:]:
        _require_alike(sources[0], source, job.time_unit)
    return sources


def _open(place: Place, job: Conversion) -> Source:
    """Open a file by what it holds; a name alone says little."""
    reader = reader_of_place(place)
    if reader is None:
        return TextSource(place, job.layout)
    return TableSource(WithPartitions(reader, place.partitions()), job.layout, job.features.one_hot)


def reader_of_place(place: Place) -> TableReader | None:
    """Return a reader of the file; None for delimited text."""
    start = first_bytes(place, 4096)
    if start.startswith((b"PAR1", b"ARROW1")) and is_compressed(place):
        raise InputError(f"{place.name}: is a compressed file of columns; unpack it first")
    if start.startswith(b"PAR1"):
        return ParquetReader(place)
    if start.startswith((b"ARROW1", _ARROW_STREAM)):
        return IpcReader(place)
    stripped = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    name = place.name.removesuffix(".gz").removesuffix(".zst")
    if stripped.startswith(b"{"):
        return JsonLinesReader(place)
    if stripped.startswith(b"[") and (name.endswith(_JSON_SUFFIXES) or stripped[1:].lstrip()[:1] in b"[{"):
        raise InputError(
            f"{place.name}: is one JSON list; write one object a line, for example with: jq -c '.[]'"
        )
    if start.startswith(b"FEA1"):
        raise InputError(f"{place.name}: is Feather of version 1; write it again, which makes version 2")
    for magic, (what, remedy) in _OTHER_FORMS.items():
        if start.startswith(magic):
            raise InputError(f"{place.name}: is {what}; {remedy}")
    if b"\x00" in start[:1024]:
        raise InputError(
            f"{place.name}: holds neither text nor Parquet, Arrow IPC or JSON lines; give one of these"
        )
    return None


def _require_alike(first: Source, other: Source, said: TimeUnit | None) -> None:
    """Require that sources are alike: several files are one log only if they offer the same things. `said`:
    what times count where files do not say it."""
    ours, theirs = first.roles, other.roles
    if ours.has_names != theirs.has_names and ours.used != theirs.used:
        named, nameless = (first, other) if ours.has_names else (other, first)
        raise InputError(
            f"{nameless.name}: has no line of column names, and {named.name} has its columns in another "
            "order than source, destination, time; write the names into each file"
        )
    if len(other.feature_names) != len(first.feature_names):
        raise InputError(
            f"{other.name}: {len(other.feature_names)} feature columns where {first.name} has "
            f"{len(first.feature_names)}; give files with the same columns"
        )
    if None not in (first.id_kinds, other.id_kinds) and first.id_kinds != other.id_kinds:
        raise InputError(
            f"{other.name}: ids are {other.id_kinds} where {first.name} has {first.id_kinds}; "
            "write them with one type"
        )
    for role in ("src", "dst", "time", "label"):
        one, two = (roles.name_of(getattr(roles, role)) for roles in (ours, theirs))
        if ours.has_names and theirs.has_names and one != two:
            raise InputError(
                f"{other.name}: its {role} column is {two!r} where that of {first.name} is {one!r}; "
                f"name one that both have with --{role}"
            )
    if theirs.has_names and ours.has_names and theirs.feature_names != ours.feature_names:
        raise InputError(
            f"{other.name}: feature columns {theirs.feature_names} where {first.name} has "
            f"{ours.feature_names}; name them in one order with --features"
        )
    if (first.time_unit or said) != (other.time_unit or said):
        raise InputError(
            f"{other.name}: times are {other.time_unit or 'numbers or text'} where {first.name} has "
            f"{first.time_unit or 'numbers or text'}; give files with one type of time"
        )
