"""The command line of `data_prep`: what it takes, and one sentence for what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from data_prep.__main__ import main
from tests.support.command_line import ROOT, convert, refusal, run_data_prep, run_here
from tests.support.raw_files import GOOD


def test_unknown_flag_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = run_data_prep("convert", tmp_path / "log.csv", tmp_path / "out", "--sorted")
    assert done.returncode == 2
    assert done.stderr == "python -m data_prep: error: unknown flag --sorted; did you mean --sort?\n"


@pytest.mark.parametrize(
    "args",
    [
        "",
        "convrt a.csv out",
        "convert a.csv out --sorted",
        "convert a.csv out --shard_event 5",
        "convert a.csv out --sort=yes",
        "convert a.csv out --format xml",
        "convert",
        "synth out",
        "synth out --events many",
        "describe one two",
    ],
)
def test_bad_args_get_one_sentence(args: str) -> None:
    refusal(*args.split())


@pytest.mark.parametrize(
    "flags",
    [
        ["--events", "0"],
        ["--events", "-5"],
        ["--events", "10", "--average-degree", "0"],
        ["--events", "10", "--seed", "-1"],
    ],
)
def test_bad_synth_settings_are_refused(tmp_path: Path, flags: list[str]) -> None:
    refusal("synth", tmp_path / "out", *flags)
    assert list(tmp_path.iterdir()) == []


def test_help_of_each_command_lists_its_flags() -> None:
    for command, flag in (
        ("convert", "--time-unit"),
        ("synth", "--average-degree"),
        ("describe", "--verify"),
    ):
        done = run_here(main, command, "--help")
        assert (done.returncode, flag in done.stdout) == (0, True)
        assert "--no-" not in done.stdout  # nothing that is refused


def test_debug_shows_where_it_happened(tmp_path: Path) -> None:
    done = run_data_prep("convert", tmp_path / "absent.csv", tmp_path / "out", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_reader_that_goes_away_ends_describe_quietly(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(GOOD)
    convert(raw, tmp_path / "out")
    command = f"{sys.executable} -m data_prep describe {tmp_path / 'out'} --json | true"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
