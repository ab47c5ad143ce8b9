"""The README's map names folders that exist, and every module says in its first line what it is."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("tpnet_dist", "data_prep", "launch", "benchmarks", "reference", "docs")


def folders_in_map() -> set[str]:
    """`tpnet_dist/` and, indented, folders in it."""
    tree = (ROOT / "README.md").read_text().split("## Map", 1)[1].split("```")[1]
    top = re.findall(r"^(\w+)/", tree, flags=re.MULTILINE)
    inner = re.findall(r"^  (\w+)/", tree, flags=re.MULTILINE)
    return {*top, *(f"tpnet_dist/{name}" for name in inner)}


def test_the_map_names_the_folders_there_are() -> None:
    top = {"tpnet_dist", "data_prep", "launch", "benchmarks", "reference", "tests"}
    inner = {f"tpnet_dist/{path.parent.name}" for path in ROOT.glob("tpnet_dist/*/__init__.py")}
    assert folders_in_map() == top | inner


def test_every_module_says_what_it_is() -> None:
    silent = [
        path.relative_to(ROOT)
        for part in PARTS
        for path in ROOT.glob(f"{part}/**/*.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []
