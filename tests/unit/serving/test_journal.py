"""The write-ahead file: what was committed is read again whatever a crash left behind it."""

import errno
import os
import zlib
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.serving.journal import Journal, PastOfLog, as_call, read_journal

PAST = PastOfLog("0123456789abcdef", 60)
FIRST = [as_call([1, "b"], ["x", 2], [7, 8], None)]
SECOND = [as_call([3], [4], [2**62 + 1], None), as_call(["ä"], ["\n"], [2**62 + 1], None)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """With two commits, as a crash leaves it: room that was taken lies behind them."""
    journal = Journal.begin(tmp_path / "events.wal", PAST)
    for calls in (FIRST, SECOND):
        journal.reserve(calls)
        journal.commit(calls)
    return tmp_path / "events.wal"


def sizes_after(path: Path) -> list[int]:
    return read_journal(path).calls.sizes


def test_calls_come_back_as_they_were(path: Path) -> None:
    found = read_journal(path)
    assert (found.past, found.calls.sizes) == (PAST, [2, 1, 1])
    assert (found.calls.src, found.calls.dst) == ([1, "b", 3, "ä"], ["x", 2, 4, "\n"])
    assert found.calls.time == [7, 8, 2**62 + 1, 2**62 + 1]
    assert path.stat().st_size > found.size


def test_features_come_back_to_the_bit(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "events.wal", PAST)
    rows = [[0.1, float.fromhex("0x1.fffffep-100")], [1 / 3, -0.0]]
    calls = [as_call([1, 2], [3, 4], [0.1, 0.3], rows)]
    journal.reserve(calls)
    journal.commit(calls)
    found = read_journal(tmp_path / "events.wal").calls
    assert (found.features, found.time) == (rows, [0.1, 0.3])


def test_every_cut_within_the_last_commit_leaves_those_before_it(path: Path) -> None:
    whole = path.read_bytes()[: read_journal(path).size]
    last = whole.rindex(b"\n", 0, -1) + 1
    for stop in range(last, len(whole)):
        for tail in (b"", bytes(5000)):
            path.write_bytes(whole[:stop] + tail)
            assert sizes_after(path) == [2]
    # pages may reach the disk in any order: the first of a commit may be missing
    path.write_bytes(whole[:last] + bytes(8) + whole[last + 8 :])
    assert sizes_after(path) == [2]


def test_what_was_cut_short_is_overwritten(path: Path) -> None:
    size = read_journal(path).size
    path.write_bytes(path.read_bytes()[: size - 3])
    journal = Journal.go_on(path, read_journal(path), PAST)
    journal.reserve(FIRST)
    journal.commit(FIRST)
    journal.close()
    found = read_journal(path)
    assert found.calls.sizes == [2, 2] and found.size == path.stat().st_size


def test_damage_before_whole_events_is_told_and_nothing_cut(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\n") + 20] ^= 1
    path.write_bytes(content)
    with refused():
        read_journal(path)
    assert path.read_bytes() == content


def test_other_files_and_other_logs_are_refused(path: Path, tmp_path: Path) -> None:
    found = read_journal(path)
    for past in (PastOfLog(PAST.log, 61), PastOfLog("fedcba9876543210", 60)):
        with refused():
            Journal.go_on(path, found, past)
    (tmp_path / "other.wal").write_text("src,dst\n1,2\n")
    with refused():
        read_journal(tmp_path / "other.wal")


def test_a_full_disk_refuses_before_anything_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.go_on(path, read_journal(path), PAST)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="space"):
        journal.reserve(FIRST)
    assert path.stat().st_size == journal.size
    assert sizes_after(path) == [2, 1, 1]


@pytest.mark.parametrize(
    "commit",
    [
        *(b'{"src": [1]}', b"5", b'[{"src": [1]}]', b'[{"src": [1, 2], "dst": [1], "time": [1]}]'),
        *(b"[" * 5000, b'[{"dst": [1], "src": 5, "time": [1]}]'),
    ],
)
def test_whole_lines_that_hold_no_events_are_refused(path: Path, commit: bytes) -> None:
    whole = path.read_bytes()[: read_journal(path).size]
    path.write_bytes(whole + b"%08x %s\n" % (zlib.crc32(commit), commit))
    with refused():
        read_journal(path)


def test_a_first_line_that_says_too_little_is_refused(path: Path) -> None:
    content = b'{"format": 1, "id": "a", "log": "b"}'
    path.write_bytes(b"%08x %s\n" % (zlib.crc32(content), content))
    with refused():
        read_journal(path)
