"""Which column is what: what the user or a preset says, and what the columns' names show."""

from dataclasses import dataclass

from data_prep.columns import ColumnFinder
from tpnet_dist.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is known of a file before looking at it; `None` means: find out."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    features: tuple[str, ...] = ()
    """Names, positions, or one open range such as `4:` for all columns from position 4 on."""
    feature_row: str | None = None
    """Column that tells which row of a separate feature file belongs to the event."""
    delimiter: str | None = None
    header: bool | None = None
    names_its_columns: bool = True
    """False if the header line does not fit the columns (JODIE: one name for 172 features)."""
    comment: str | None = None
    """The text at the start of lines that are skipped."""
    decimal_comma: bool = False
    is_kept: bool = False
    """Columns are those of the files that a log was converted from."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The position of each column that has a role."""

    names: tuple[str, ...]
    """One name per column; positions as text where the source names none."""
    has_names: bool
    src: int
    dst: int
    time: int
    label: int | None
    features: tuple[int, ...]
    feature_row: int | None

    @property
    def used(self) -> list[int]:
        """Positions to parse, in a fixed order."""
        wanted = [self.src, self.dst, self.time, self.label, self.feature_row, *self.features]
        return [position for position in wanted if position is not None]

    @property
    def numeric(self) -> list[int]:
        return [*self.features, *([] if self.label is None else [self.label])]

    @property
    def feature_names(self) -> list[str]:
        return [self.names[position] for position in self.features]

    @property
    def unused(self) -> list[str]:
        used = set(self.used)
        return [name for position, name in enumerate(self.names) if position not in used]

    def name_of(self, position: int | None) -> str | None:
        return None if position is None else self.names[position]


def find_roles(where: str, names: list[str], layout: Layout, *, has_names: bool) -> Roles:
    """Find the position of each role; InputError, beginning with `where`, for a column that is not there or
    is given two roles."""
    if has_names and not layout.is_kept:
        _refuse_equal_names(where, names)
    find = ColumnFinder(where, names, has_names, is_kept=layout.is_kept)
    roles = Roles(
        names=tuple(names),
        has_names=has_names,
        src=find.required("src", layout.src, default=0),
        dst=find.required("dst", layout.dst, default=1),
        time=find.required("time", layout.time, default=2),
        label=None if layout.label is None else find.position(layout.label, "--label"),
        features=find.features(layout.features),
        feature_row=None if layout.feature_row is None else find.position(layout.feature_row, "--format"),
    )
    _refuse_two_roles(where, roles)
    if has_names and layout.is_kept:  # a first event in place of the names is told by what it lacks
        _refuse_equal_names(where, names)
    return roles


def _refuse_equal_names(where: str, names: list[str]) -> None:
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(
                f"{where}: has {names.count(name)} columns {name!r}, but a name is one column's; "
                "rename the others, or give columns by position with --header no"
            )


def _refuse_two_roles(where: str, roles: Roles) -> None:
    one_each = [("src", roles.src), ("dst", roles.dst), ("time", roles.time), ("label", roles.label)]
    taken: dict[int, str] = {}
    for role, position in [*one_each, *(("features", position) for position in roles.features)]:
        if position is None:
            continue
        if position in taken:
            name = roles.names[position]
            raise InputError(
                f"{where}: column {name!r} is given for {taken[position]} and for {role}; "
                "give each column one role"
            )
        taken[position] = role
