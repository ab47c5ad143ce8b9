"""The benchmark of a grown log: its parts, and all of it on a log of some hundred events."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import going_on
from tests.support.command_line import ROOT
from tests.support.training_runs import flags_of, small_config
from tpnet_dist.errors import InputError

EVENTS = 1200


def test_a_file_is_cut_where_the_share_ends_and_all_parts_name_their_columns(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text("src,dst,time\n" + "".join(f"1,2,{time}\n" for time in range(10)))
    settings = going_on.Settings(raw=raw, has_header=True, appends=2, out=tmp_path / "out")
    parts = [path.read_text().splitlines() for path in going_on._split(settings)]
    assert parts[0] == ["src,dst,time", *(f"1,2,{time}" for time in range(8))]
    assert parts[1:] == [["src,dst,time", "1,2,8"], ["src,dst,time", "1,2,9"]]


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    for wrong in ({"raw": tmp_path / "none.csv"}, {"share": 1.0}, {"out": tmp_path}):
        given = {"raw": tmp_path / "log.csv", "out": tmp_path / "out", **wrong}
        with pytest.raises(InputError, match="; "):
            going_on.Settings(**given).check()  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_grown_log_is_measured_from_end_to_end(tmp_path: Path) -> None:
    raw, synth = tmp_path / "log.csv", ["data_prep", "synth"]
    more = ["--events", str(EVENTS), "--as-csv", "--average-degree", "20"]
    subprocess.run([sys.executable, "-m", *synth, str(raw), *more], cwd=ROOT, check=True)
    args = " ".join(flags_of(small_config(tmp_path)))
    command = ["benchmarks.going_on", str(raw), "--flags=", "--has-header", f"--args={args}", "--epochs", "2"]
    command += ["--appends", "2", "--whole"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--out", str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    stages = json.loads(done.stdout.splitlines()[-1])["results"]["stages"]
    assert [bool(stage["test_ap"]) for stage in stages] == [*[False] * 4, True, True, True, False, True]
    assert all(0 < ap <= 1 for stage in stages for ap in stage["test_ap"].values())
