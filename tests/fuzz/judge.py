"""Run a command on hostile input and judge it: exit code 0, or 2 with one sentence and nothing left behind;
no traceback, no hang, and nothing changed but what the command was told to make."""

import hashlib
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.support.command_line import Done, run_here

SECONDS = 60
_PROGRESS = re.compile(r"[^;:]+: \d+%, ")
_ERROR = re.compile(r"python -m [\w.]+: error: ")

Tree = dict[str, str]
"""What a folder holds: paths below it with checksums of their content."""


class Hang(BaseException):
    """Raised for a command that takes too long."""


def judged(root: Path, main: Callable[[], None], *args: object, makes: tuple[Path, ...] = ()) -> Done:
    """Run a command; AssertionError for whatever no input may lead to. `root`: all that it could touch.
    `makes`: what it was told to write, none of which is there yet."""
    before = tree(root)
    with _time_limit():
        done = run_here(main, *args)
    assert done.returncode in (0, 2), (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        _require_one_sentence(done.stderr)
    allowed = () if done.returncode else tuple(str(path.relative_to(root)) for path in makes)
    after = {path: found for path, found in tree(root).items() if not path.startswith(allowed or "\0")}
    assert after == before, f"changed: {sorted(set(after.items()) ^ set(before.items()))[:4]}"
    return done


def tree(root: Path) -> Tree:
    return {
        str(path.relative_to(root)): hashlib.md5(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }


def _require_one_sentence(said: str) -> None:
    lines = [line for line in said.splitlines() if line.strip() and not _PROGRESS.match(line)]
    # remarks and warnings may come before the error
    assert lines and _ERROR.match(lines[-1]), said
    assert sum(bool(_ERROR.match(line)) for line in lines) == 1, said
    assert "; " in lines[-1], f"no remedy: {lines[-1]}"
    assert lines[-1].isprintable(), f"commands to terminals: {lines[-1]!r}"


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
