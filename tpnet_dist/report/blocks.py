"""The contents of a page, as data: tables, facts, paragraphs, charts; templates make HTML of it.

Text is plain everywhere: whatever comes from files is escaped when a template shows it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tpnet_dist.report.plot import Chart


@dataclass(frozen=True)
class Text:
    """Some text in a form of its own."""

    text: str
    small: str = ""
    """Text in small type after it, or in a table below it."""
    is_code: bool = False


Cell = str | Text
Rows = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Table:
    """Rows by group, each with a heading unless that is empty; the first cell of a row is its heading."""

    form: ClassVar = "table"
    caption: str
    head: Sequence[str]
    groups: Sequence[tuple[str, Rows]]
    kind: str = "figures"


@dataclass(frozen=True)
class Facts:
    """A list of facts: what, and its value."""

    form: ClassVar = "facts"
    label: str
    rows: Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Paragraph:
    """Pieces one after another."""

    form: ClassVar = "paragraph"
    pieces: Sequence[Cell]
    kind: str = "note"


@dataclass(frozen=True)
class Charts:
    """Charts in as many columns as there is room for."""

    form: ClassVar = "charts"
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Pair:
    """Tables beside one another, where there is room."""

    form: ClassVar = "pair"
    tables: Sequence[Table]


@dataclass(frozen=True)
class Folded:
    """A table that shows when asked for."""

    form: ClassVar = "folded"
    summary: str
    table: Table


Block = Table | Facts | Paragraph | Charts | Pair | Folded


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]
    id: str = ""
    """The name that links to it use."""


@dataclass(frozen=True)
class Tile:
    """One of the main figures, with what it is above and what to hold it against below."""

    what: str
    value: Text
    beside: str


def charts_of(*charts: Chart | None) -> list[Block]:
    """Return the charts that there is something to draw for."""
    drawn = [chart for chart in charts if chart is not None]
    return [Charts(drawn)] if drawn else []


def present(*blocks: Block | None) -> list[Block]:
    """Return the blocks that there are."""
    return [block for block in blocks if block is not None]


def code(values: Iterable[str]) -> list[Cell]:
    return [Text(value, is_code=True) for value in values]
