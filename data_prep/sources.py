"""The sources of a conversion: each input, by what it holds."""

from pathlib import Path

from data_prep.chunk import Source
from data_prep.conversion import Conversion
from data_prep.places import Place, places_of
from data_prep.text_source import TextSource
from tpnet_dist.errors import InputError


def open_sources(job: Conversion, spool: Path) -> list[Source]:
    """All inputs, in order, with the same columns in the same roles. `spool`: where standard input is
    kept."""
    sources = [_open(place, job) for place in places_of(job.inputs, spool)]
    for source in sources[1:]:
        _require_alike(sources[0], source)
    return sources


def _open(place: Place, job: Conversion) -> Source:
    return TextSource(place, job.layout)


def _require_alike(first: Source, other: Source) -> None:
    """Several files are one log only if they offer the same things."""
    ours, theirs = first.roles, other.roles
    if len(theirs.features) != len(ours.features):
        raise InputError(
            f"{other.name}: {len(theirs.features)} feature columns where {first.name} has "
            f"{len(ours.features)}; give files with the same columns"
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
    if first.time_unit != other.time_unit:
        raise InputError(
            f"{other.name}: times are {other.time_unit or 'numbers or text'} where {first.name} has "
            f"{first.time_unit or 'numbers or text'}; give files with one type of time"
        )
