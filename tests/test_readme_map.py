"""The README's map names every file of the project, and only files that exist."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAPPED = ("tpnet_dist", "data_prep", "launch", "benchmarks", "tests", "docs")
UNMAPPED_NAMES = {"__init__.py", "py.typed"}


def files_on_disk() -> set[str]:
    """Tracked and new files, so that the map is true before a commit too."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *MAPPED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return {name for name in listing if Path(name).name not in UNMAPPED_NAMES and (ROOT / name).exists()}


def files_in_map() -> set[str]:
    section = (ROOT / "README.md").read_text().split("## Map", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE))


def test_map_and_disk_agree() -> None:
    assert files_in_map() == files_on_disk()
