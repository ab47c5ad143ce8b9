"""The pages of docs/: the reference of settings is current, and links between pages lead somewhere."""

import re
from pathlib import Path

from docs import write_configuration

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_reference_of_settings_is_current() -> None:
    written = write_configuration.PAGE.read_text()
    assert written == write_configuration.page(), "run python docs/write_configuration.py"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, _, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name} links to {target}"
            assert not heading or heading in headings(path), f"{page.name} links to {target}#{heading}"


def test_contributing_names_the_make_targets_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named == targets


def test_the_tests_that_hold_guarantees_are_there() -> None:
    named = re.findall(
        r"`((?:tests/)?[\w/]*test_\w+\.py|tests/[\w/.]+)`", (ROOT / "docs" / "guarantees.md").read_text()
    )
    assert len(named) > 10
    for name in named:
        assert list(ROOT.glob(name if "/" in name else f"tests/**/{name}")), name
