"""What tells one state of the code from another."""

from pathlib import Path

import pytest

from benchmarks import results_line
from benchmarks.results_line import hash_of_code


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("part/one.py", "part/two.py", "alone.py", "docs.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(results_line, "_ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "is_code"),
    [("part/two.py", True), ("alone.py", True), ("docs.md", False), ("part/notes.md", False)],
)
def test_only_the_named_code_counts(repository: Path, name: str, is_code: bool) -> None:
    before = hash_of_code("part", "alone.py")
    assert hash_of_code("part", "alone.py") == before
    (repository / name).write_text("changed")
    assert (hash_of_code("part", "alone.py") != before) == is_code


def test_code_that_is_not_there_is_no_code(repository: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.py"):
        hash_of_code("gone.py")
