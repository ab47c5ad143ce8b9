"""A table that is laid out once and shown twice, on a terminal and as Markdown; figures with their spread."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.accuracy_rows import Accuracy
from tpnet_dist.config.paper_values import PaperValue


@dataclass(frozen=True)
class Sheet:
    """A table; its first columns are text, the others numbers."""

    title: str
    headings: tuple[str, ...]
    num_text_columns: int
    rows: Sequence[tuple[str, ...]]

    def for_terminal(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if number < self.num_text_columns else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        rules = ["---"] * self.num_text_columns + ["---:"] * (len(self.headings) - self.num_text_columns)
        lines = [self.headings, tuple(rules), *self.rows]
        return f"## {self.title}\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_spread(row: Accuracy | None) -> str:
    if row is None:
        return ""
    return f"{row.mean:.4f}" if row.std is None else f"{row.mean:.4f} ± {row.std:.4f}"


def of_paper(value: PaperValue | None) -> str:
    return "" if value is None else f"{value.mean:.4f} ± {value.std:.4f}"
