"""The command line of `report`: what it takes, one sentence for what it does not, pages whole or absent."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, run_here, sentence_of
from tests.support.report_runs import results_of, write_run
from tests.support.sentences import refused
from tpnet_dist.report import __main__ as report
from tpnet_dist.report.__main__ import PROGRAM, parse_report

REFUSED = (
    "",
    "runs/a --out page.pdf",
    "runs/a runs/b/../a",
    "runs/a --outt x.html",
    "runs/a --out",
)


def test_every_word_without_a_flag_is_a_run_also_with_spaces_and_commas() -> None:
    command = parse_report(["runs/a", "--out", "there/page.html", "my runs/b, c", "--debug"])
    assert command.runs == (Path("runs/a"), Path("my runs/b, c"))
    assert (command.out, command.debug) == (Path("there/page.html"), True)
    assert parse_report(["runs/a"]).out == Path("report.html")


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence(args: str) -> None:
    with refused():
        parse_report(args.split())


def test_the_report_does_not_wait_for_torch(tmp_path: Path) -> None:
    """Which takes seconds to import."""
    run = write_run(tmp_path / "run", results=results_of(0.9))
    script = (
        "import sys; from pathlib import Path; from datetime import datetime; "
        "from tpnet_dist.report.page import page, read_runs; "
        f"page(read_runs([Path({str(run)!r})]), datetime.now()); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def refusal(*args: object) -> str:
    return sentence_of(run_here(report.main, *args), PROGRAM)


def test_a_folder_that_is_no_run_gets_one_sentence_and_leaves_no_page(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "run", results=results_of(0.9)), tmp_path / "page.html"
    for none in (tmp_path, tmp_path / "absent", run / "config.toml"):
        refusal(run, none, "--out", out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "7"])
def test_damaged_results_get_one_sentence_and_the_page_before_stays(tmp_path: Path, content: str) -> None:
    run, out = write_run(tmp_path / "run"), tmp_path / "page.html"
    out.write_text("before")
    (run / "results.json").write_text(content)
    refusal(run, "--out", out)
    assert out.read_text() == "before"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    refusal(run, "--out", tmp_path / "absent" / "page.html")


def test_the_page_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "run"), tmp_path / "page.html"
    out.write_text("before")
    done = run_here(report.main, run, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{out}: ")
    assert out.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run"]
