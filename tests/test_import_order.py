"""Imports go one way (docs/architecture.md): a folder imports only folders before it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ORDER = (
    "files",
    "config",
    "distributed",
    "events",
    "neighbors",
    "memory",
    "models",
    "batches",
    "sizing",
    "evaluation",
    "training",
    "prediction",
    "serving",
    "report",
    "checkup",
)
EVALUATE = {"evaluate", "evaluate_command"}
COMMANDS = EVALUATE | {"__main__", "train", "predict", "serve", "plan", "doctor", "runs", "tune", "version"}
PYTHON_API = {"api"}
EVERYWHERE = {"errors", "keyed_random", "device_forms", "spans"}
"""Modules at the package's root that any folder may import; they import nothing of ours."""

STRANGERS = {("neighbors", "events"), ("memory", "events"), ("memory", "neighbors")} | {
    ("models", part) for part in ("events", "neighbors", "memory", "distributed")
}
"""Parts that lie earlier and still must not be known: they meet in `batches`."""
OTHERS = {
    "launch": set[str](),
    "reference": {"tpnet_dist.errors"},
    "data_prep": {f"tpnet_dist.{part}" for part in ("errors", "files", "config", "events")},
}


def allowed(part: str) -> set[str] | None:
    """Parts that this one may import besides itself; None: anything."""
    top, _, name = part.partition(".")
    if top != "tpnet_dist":
        return OTHERS.get(top)
    if name in ORDER:
        before = {*ORDER[: ORDER.index(name)], *EVERYWHERE} - {b for a, b in STRANGERS if a == name}
        return {f"tpnet_dist.{each}" for each in before}
    # the package itself offers its Python API by name
    return None if name in COMMANDS | PYTHON_API or not name else set()


def part_of(module: str) -> str | None:
    """The part a dotted name belongs to; None if it is not ours."""
    names = module.split(".")
    if names[0] == "tpnet_dist":
        return ".".join(names[:2])
    return names[0] if names[0] in {"data_prep", "benchmarks", "tests", "launch", "reference"} else None


def imported_modules(path: Path, package: str) -> set[str]:
    """Both spellings, also `from package import submodule` and relative imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "tpnet_dist" else {base}
    return found


def offences(path: Path, root: Path = ROOT) -> set[str]:
    names = path.relative_to(root).with_suffix("").parts
    module = ".".join(name for name in names if name != "__init__")
    package = module if path.name == "__init__.py" else ".".join(names[:-1])
    own = part_of(module)
    assert own is not None
    may = allowed(own)
    if may is None:
        return set()
    used = {part_of(name) for name in imported_modules(path, package)} - {None, own}
    return {part for part in used if part not in may}


SOURCES = sorted(
    path
    for part in ("tpnet_dist", "data_prep", "launch", "reference")
    for path in ROOT.glob(f"{part}/**/*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_what_lies_before_it(path: Path) -> None:
    assert offences(path) == set()


def test_every_folder_has_its_place() -> None:
    folders = {path.parent.name for path in ROOT.glob("tpnet_dist/*/__init__.py")}
    assert folders == set(ORDER)
    modules = {path.stem for path in ROOT.glob("tpnet_dist/*.py")}
    assert modules == COMMANDS | PYTHON_API | EVERYWHERE | {"__init__"}


def test_benchmarks_do_not_import_tests() -> None:
    for path in ROOT.glob("benchmarks/**/*.py"):
        parts = {part_of(name) for name in imported_modules(path, "benchmarks")}
        assert "tests" not in parts, path


@pytest.mark.parametrize(
    "line",
    [
        "import data_prep.convert",
        "from data_prep import convert",
        "from tpnet_dist.memory import row_table",
        "from tpnet_dist import memory",
        "from .. import memory",
        "from ..memory import row_table",
    ],
)
def test_every_spelling_of_a_forbidden_import_is_noticed(tmp_path: Path, line: str) -> None:
    module = tmp_path / "tpnet_dist" / "events" / "reader.py"
    module.parent.mkdir(parents=True)
    module.write_text(line + "\n")
    assert offences(module, tmp_path)
