"""Sentences for people, kept in one file: `tests/sentences.txt`, by the test that provokes them.

Tests assert values, keys and exit codes; what a sentence says, word for word, is compared with that file.
After a change that is meant, write it anew and read the difference:

    .venv/bin/python -m pytest tests/unit/events --write-sentences

`refused()` stands where `pytest.raises(InputError)` would, `sentence_of` (command_line) checks what a command
prints, and `same_sentence` any other text. Folders of tests are shown as TMP, the checkout
as ROOT, and where real logs lie as SHARED.
"""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.shared_folder import SHARED
from tpnet_dist.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ROOT / "tests" / "sentences.txt"
_INDENT = "    "
_FOREIGN = re.compile(
    r"[0-9a-f]{12,}"  # checksums
    r"|(?<=bytes where the manifest says )[\d,]+|[\d.,]+ GB(?= are free)"
    r"|(?<=CSV parse error: ).*(?=; correct it)"
    r"|(?<=TOML: ).*(?=; correct)|(?<=no numbers: ).*(?=; give)"
    r"|(?<=\()(?:[A-Z][a-z']+|setting) .*(?=\); )"  # an error of a library, in parentheses
)
"""What this machine or a version of a library says, not we."""


@dataclass
class SaidByTest:
    """What a test has provoked so far, beside what is kept of it."""

    test: str
    kept: list[str]
    temporary: Path
    writes: bool
    said: list[str] = field(default_factory=list)

    def compare(self, text: str, varies: str) -> None:
        shown = self._shown(text)
        if varies:
            assert re.search(varies, shown), f"nothing in {shown!r} is like {varies!r}"
            shown = re.sub(varies, "…", shown)
        place = len(self.said)
        self.said.append(shown)
        if not self.writes:
            assert shown == self._kept_at(place), "if this is meant, run pytest with --write-sentences"

    def require_all(self) -> None:
        missing = self.kept[len(self.said) :]
        assert self.writes or not missing, f"not said any more: {missing}; run pytest with --write-sentences"

    def _kept_at(self, place: int) -> str | None:
        return self.kept[place] if place < len(self.kept) else None

    def _shown(self, text: str) -> str:
        text = re.sub(rf"{re.escape(str(self.temporary))}/[^/\s;:,'\")]+", "TMP", text)
        for folder, name in ((SHARED, "SHARED"), (ROOT, "ROOT")):
            text = text.replace(str(folder), name)
        text = text.replace("\n", "\\n")
        return _FOREIGN.sub("…", text)


_current: list[SaidByTest] = []


@contextmanager
def refused(
    kind: type[InputError] = InputError, *, varies: str = ""
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """The block raises an error for people. `varies`: what of its sentence differs from run to run."""
    with pytest.raises(kind) as error:
        yield error
    has_remedy(same_sentence(str(error.value), varies=varies))


def has_remedy(sentence: str) -> str:
    """The value and the rule come first, then what to do about it."""
    assert "; " in sentence, f"{sentence!r} has no remedy"
    return sentence


def same_sentence(text: str, *, varies: str = "") -> str:
    """Compare a sentence with the one that is kept, and return it."""
    _current[-1].compare(text, varies)
    return text


@contextmanager
def sentences_of(test: str, temporary: Path, *, writes: bool) -> Iterator[SaidByTest]:
    """Around a test."""
    said = SaidByTest(test, kept_sentences().get(test, []), temporary, writes)
    _current.append(said)
    try:
        yield said
    finally:
        _current.pop()
    if writes and said.said != said.kept:
        _write({test: said.said})


def forget_all_but(tests: set[str], files: set[str]) -> None:
    """Drop what is kept of tests that these files do not hold any more."""
    kept = kept_sentences()
    _write({test: [] for test in kept if test.split("::")[0] in files and test not in tests})


_read: dict[int, dict[str, list[str]]] = {}


def kept_sentences() -> dict[str, list[str]]:
    """Sentences by test; read again when the file has changed."""
    changed = SENTENCES.stat().st_mtime_ns
    if changed not in _read:
        _read.clear()
        _read[changed] = _parse(SENTENCES.read_text())
    return _read[changed]


def _parse(text: str) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    test = ""
    for line in text.splitlines():
        if line.startswith(_INDENT):
            kept[test].append(line.removeprefix(_INDENT))
        elif line and not line.startswith("#"):
            test = line
            kept[test] = []
    return kept


def _write(changes: dict[str, list[str]]) -> None:
    """Several workers may write at once."""
    with SENTENCES.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        kept = {**_parse(text), **changes}
        heading = [line for line in text.splitlines() if line.startswith("#")]
        blocks = [
            "\n".join([test, *(f"{_INDENT}{sentence}" for sentence in kept[test])])
            for test in sorted(kept)
            if kept[test]
        ]
        file.seek(0)
        file.write("\n".join([*heading, *blocks, ""]))
        file.truncate()
