"""Times of a CSV are read alike, wherever in the file their spelling changes."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.sentences import refused
from tpnet_dist.prediction.link_file import LinkFile

ROWS = 400_000
"""Of more bytes than are read at a time."""


def file_of(path: Path, *times: str) -> LinkFile:
    path.write_text("src,dst,time\n" + "".join(f"a,b,{time}\n" for time in times))
    return LinkFile(path)


@pytest.mark.parametrize(("late", "value"), [("1700576000.0", 1700576000), ("1700576000.5", 1700576000.5)])
def test_a_spelling_that_comes_late_is_read(tmp_path: Path, late: str, value: float) -> None:
    blocks = list(file_of(tmp_path / "pairs.csv", *["1700000000"] * ROWS, late).blocks())
    assert sum(map(len, blocks)) == ROWS + 1
    times = [block.time for block in blocks]
    assert times[0] is not None and times[0].dtype == np.int64
    assert times[-1] is not None and times[-1][-1] == value


def test_nanoseconds_keep_their_last_digit_beside_fractions_that_are_none(tmp_path: Path) -> None:
    times = file_of(tmp_path / "pairs.csv", "1700000000123456789", "1700000000123456791.0").read().time
    assert times is not None and times.tolist() == [1700000000123456789, 1700000000123456791]


def test_dates_with_and_without_a_zone_are_utc(tmp_path: Path) -> None:
    spellings = ("2023-11-14T22:13:20Z", "2023-11-14 22:13:20", " 2023-11-15T00:13:20.000+02:00")
    times = file_of(tmp_path / "pairs.csv", *spellings).read().time
    assert times is not None
    assert times.tolist() == [np.datetime64("2023-11-14T22:13:20", "us").item()] * 3


@pytest.mark.parametrize(
    "times",
    [
        ["1", "soon"],
        ["1", "2023-11-14"],
        ["1"] * ROWS + ["2023-11-14"] * 20_000,
        ["1", ""],
        ["1", "NULL"],
    ],
    ids=["a word", "a date among numbers", "dates after numbers", "nothing", "a spelling of nothing"],
)
def test_other_times_are_refused(tmp_path: Path, times: list[str]) -> None:
    with refused():
        file_of(tmp_path / "pairs.csv", *times).read()
