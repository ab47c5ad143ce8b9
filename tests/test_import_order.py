"""Imports go one way (docs/architecture.md): a lower part never knows a higher one."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# part → parts of ours it may import, besides itself
ALLOWED = {
    "tpnet_dist": {"tpnet_dist.prediction"},
    "tpnet_dist.errors": set(),
    "tpnet_dist.flags": set(),
    "tpnet_dist.whole_file": set(),
    "tpnet_dist.only_writer": {"tpnet_dist.errors"},
    "tpnet_dist.read_ahead": set(),
    "tpnet_dist.keyed_draws": set(),
    "tpnet_dist.growing_array": set(),
    "tpnet_dist.peak_memory": set(),
    "tpnet_dist.config": {"tpnet_dist.errors"},
    "tpnet_dist.config_keys": {"tpnet_dist.config", "tpnet_dist.errors", "tpnet_dist.flags"},
    "tpnet_dist.config_file": {
        "tpnet_dist.config",
        "tpnet_dist.config_keys",
        "tpnet_dist.errors",
        "tpnet_dist.whole_file",
    },
    "tpnet_dist.command_words": {"tpnet_dist.config", "tpnet_dist.config_keys", "tpnet_dist.errors"},
    "tpnet_dist.settings": {
        "tpnet_dist.command_words",
        "tpnet_dist.config",
        "tpnet_dist.config_file",
        "tpnet_dist.config_keys",
        "tpnet_dist.errors",
    },
    "tpnet_dist.run_log": set(),
    "tpnet_dist.paper_values": set(),
    "tpnet_dist.report_page": {
        "tpnet_dist.config",
        "tpnet_dist.config_file",
        "tpnet_dist.config_keys",
        "tpnet_dist.errors",
        "tpnet_dist.events",
        "tpnet_dist.paper_values",
        "tpnet_dist.run_log",
    },
    "tpnet_dist.events": {
        "tpnet_dist.errors",
        "tpnet_dist.growing_array",
        "tpnet_dist.read_ahead",
        "tpnet_dist.keyed_draws",
        "tpnet_dist.only_writer",
        "tpnet_dist.whole_file",
    },
    "tpnet_dist.ranks": {"tpnet_dist.errors"},
    "tpnet_dist.memory": {
        "tpnet_dist.errors",
        "tpnet_dist.growing_array",
        "tpnet_dist.read_ahead",
        "tpnet_dist.keyed_draws",
        "tpnet_dist.ranks",
    },
    "tpnet_dist.model": {"tpnet_dist.keyed_draws"},
    "tpnet_dist.training": {
        "tpnet_dist.errors",
        "tpnet_dist.peak_memory",
        "tpnet_dist.read_ahead",
        "tpnet_dist.keyed_draws",
        "tpnet_dist.config",
        "tpnet_dist.config_file",
        "tpnet_dist.config_keys",
        "tpnet_dist.run_log",
        "tpnet_dist.only_writer",
        "tpnet_dist.whole_file",
        "tpnet_dist.events",
        "tpnet_dist.ranks",
        "tpnet_dist.memory",
        "tpnet_dist.model",
    },
    "tpnet_dist.planning": {
        "tpnet_dist.errors",
        "tpnet_dist.peak_memory",
        "tpnet_dist.keyed_draws",
        "tpnet_dist.config",
        "tpnet_dist.whole_file",
        "tpnet_dist.events",
        "tpnet_dist.ranks",
        "tpnet_dist.memory",
        "tpnet_dist.model",
        "tpnet_dist.training",
    },
    "tpnet_dist.prediction": {
        "tpnet_dist.errors",
        "tpnet_dist.config",
        "tpnet_dist.config_file",
        "tpnet_dist.config_keys",
        "tpnet_dist.whole_file",
        "tpnet_dist.events",
        "tpnet_dist.ranks",
        "tpnet_dist.memory",
        "tpnet_dist.model",
        "tpnet_dist.training",
    },
    "launch": set(),
    "data_prep": {
        "tpnet_dist.events",
        "tpnet_dist.errors",
        "tpnet_dist.flags",
        "tpnet_dist.read_ahead",
        "tpnet_dist.config_keys",
        "tpnet_dist.command_words",
    },
}


def part_of(module: str) -> str | None:
    """The part a dotted name belongs to; None if it is not ours."""
    words = module.split(".")
    if words[0] == "tpnet_dist":
        return ".".join(words[:2])
    return words[0] if words[0] in {"data_prep", "benchmarks", "tests", "launch"} else None


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
    words = path.relative_to(root).with_suffix("").parts
    module = ".".join(word for word in words if word != "__init__")
    package = module if path.name == "__init__.py" else ".".join(words[:-1])
    own = part_of(module)
    allowed = ALLOWED.get(own)
    if allowed is None:
        return set()
    used = {part_of(name) for name in imported_modules(path, package)} - {None, own}
    return {part for part in used if part not in allowed}


SOURCES = sorted(
    path for part in ("tpnet_dist", "data_prep", "launch") for path in ROOT.glob(f"{part}/**/*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_what_lies_below_it(path: Path) -> None:
    assert offences(path) == set()


@pytest.mark.parametrize(
    "line",
    [
        "import data_prep.convert",
        "from data_prep import convert",
        "from tpnet_dist.memory import rows",
        "from tpnet_dist import memory",
        "from .. import memory",
        "from ..memory import rows",
    ],
)
def test_every_spelling_of_a_forbidden_import_is_noticed(tmp_path: Path, line: str) -> None:
    module = tmp_path / "tpnet_dist" / "events" / "reader.py"
    module.parent.mkdir(parents=True)
    module.write_text(line + "\n")
    assert offences(module, tmp_path)
