"""Letters of shapes have one meaning in the whole project: that of the table in docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "architecture.md"
FOLDERS = ("tpnet_dist", "data_prep", "benchmarks", "reference", "tests")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
MOST_LEGENDS = 8
_SHAPED = re.compile(r"_?[a-z]\w*_([A-Z0-9]+)k?")
_LEGEND = re.compile(r"^Shape letters?: (.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)


@cache
def letters_of_the_table() -> frozenset[str]:
    section = TABLE.read_text().partition("## Shape letters")[2].partition("\n## ")[0]
    return frozenset(re.findall(r"^\| ([A-Z]) \|", section, re.MULTILINE))


def legend_of(tree: ast.Module) -> str | None:
    found = _LEGEND.search(ast.get_docstring(tree) or "")
    return found.group(1) if found else None


def defined_by(legend: str) -> set[str]:
    """`G groups, X first and Y second slots` defines G, X and Y."""
    return set(re.findall(r"(?<![\w·])([A-Z])(?= [a-z=])", legend))


def names_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg is not None:
            yield node.arg


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_shape_letter_is_explained_once(file: Path) -> None:
    tree = ast.parse(file.read_text())
    table, legend = letters_of_the_table(), legend_of(tree)
    own = set() if legend is None else defined_by(legend)
    assert not own & table, f"the legend gives {own & table} another meaning than docs/architecture.md"
    for name in names_in(tree):
        if shaped := _SHAPED.fullmatch(name):
            unknown = set(re.sub(r"\d", "", shaped.group(1))) - table - own
            assert not unknown, f"{name}: {unknown} is in no table"


def test_few_files_have_letters_of_their_own() -> None:
    with_legend = [file for file in FILES if legend_of(ast.parse(file.read_text())) is not None]
    assert len(with_legend) <= MOST_LEGENDS, with_legend


def test_a_legend_says_which_letters_it_defines() -> None:
    assert defined_by("G groups, X first and Y second slots of a group, of X·Y") == {"G", "X", "Y"}
    assert defined_by("N = B·2C sequences") == {"N"}
