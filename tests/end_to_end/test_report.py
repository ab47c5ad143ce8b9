"""`tpnet_dist.report` of a run really trained, read as text and looked at in a real browser."""

import json
import re
import shlex
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run_here, sentence_of
from tests.support.page_reader import read_page
from tests.support.real_browser import RealBrowser, real_browser
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import evaluate_command
from tpnet_dist import train as train_command
from tpnet_dist.report import __main__ as report_command
from tpnet_dist.report.result_tables import BANKS

PHONE, DESK = 390, 1200
LEAST_TYPE = 9.0
"""Pixels of the smallest type in a figure."""
LEAST_CONTRAST = 4.5
"""WCAG 2, level AA, for text of ordinary size."""
FLAGS = (
    *("--evaluation.negatives", "random", "historical", "inductive", "--evaluation.mrr-negatives", 2),
    *("--evaluation.baseline", "edgebank", "--evaluation.test-every-epoch", True, "--training.seeds", 0, 1),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds on a log by the name of one of the paper's."""
    folder = tmp_path_factory.mktemp("report")
    log = small_log(folder / "uci", events=300)
    args = [log, "--run-dir", folder / "run", *flags_of(small_config(log)), *FLAGS]
    done = run_here(train_command.main, *args)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def pages(run: Path) -> dict[str, Path]:
    """Of the run, and of it beside itself as it was before its end."""
    young = run.with_name("young")
    young.mkdir()
    for name in ("config.toml", "metrics.jsonl"):
        (young / name).write_bytes((run / name).read_bytes())
    mixer = run.with_name("mixer")
    sizes = (
        "--model.neighbors",
        4,
        "--model.time-width",
        8,
        "--model.channels",
        16,
        "--model.mixer-layers",
        1,
    )
    short = ("--training.epochs", 1, "--training.batch-size", 50, "--evaluation.batch-size", 50)
    args = [run.with_name("uci"), "--run-dir", mixer, "--model.name", "graphmixer", *sizes, *short]
    done = run_here(train_command.main, *args, "--evaluation.negatives", "random", "historical")
    assert done.returncode == 0, done.stderr
    made = {"one": [run], "two": [run, young], "models": [run, mixer]}
    for name, runs in made.items():
        done = run_here(report_command.main, *runs, "--out", run.with_name(f"{name}.html"))
        assert done.returncode == 0, done.stderr
    return {name: run.with_name(f"{name}.html") for name in made}


@pytest.fixture(scope="module")
def browser() -> Iterator[RealBrowser]:
    with real_browser() as opened:
        yield opened


def test_a_place_where_no_page_can_be_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.html").mkdir()
    for place in ("folder.html", "no/x.html"):
        done = run_here(report_command.main, "absent", "--out", place)
        sentence_of(done, report_command.PROGRAM)


def test_every_test_figure_of_the_run_is_on_the_page(run: Path, pages: dict[str, Path]) -> None:
    shown = read_page(pages["one"]).text
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    assert len(results["test"]) == 2
    for by_kind in results["test"].values():
        for metrics in by_kind.values():
            missing = [name for name, value in metrics.items() if f"{value:.4f}" not in shown]
            assert missing == []
    banks = results["baselines"]
    # of the four modes those that the paper's readers look for, and the best
    assert {"edgebank_unlimited", "edgebank_window", "edgebank_best"} <= banks.keys()
    for bank in banks.keys() & BANKS.keys():
        assert f"{banks[bank]['test']['transductive']['random']['ap']:.4f}" in shown
    assert "But it has 300 events where the paper has 59,835." in shown


def test_a_run_at_work_stands_beside_the_finished_one(pages: dict[str, Path]) -> None:
    shown = read_page(pages["two"]).text
    assert "2 of at most 2 epochs finished" in shown
    assert "Comparison" in shown


def test_models_of_one_log_stand_beside_one_another(run: Path, pages: dict[str, Path]) -> None:
    shown = read_page(pages["models"]).text
    names = ("run (TPNet)", "mixer (GraphMixer)", "the paper's TPNet", "the paper's GraphMixer")
    assert [name for name in names if name not in shown] == []
    for folder in (run, run.with_name("mixer")):
        results: dict[str, Any] = json.loads((folder / "results.json").read_text())
        for kind in ("random", "historical"):
            assert f"{results['test']['transductive'][kind]['ap']:.4f}" in shown


def test_what_training_did_not_evaluate_is_on_the_page_after_the_command_it_names(tmp_path: Path) -> None:
    log, run, out = small_log(tmp_path / "log", events=300), tmp_path / "run", tmp_path / "page.html"
    done = run_here(train_command.main, log, "--run-dir", run, *flags_of(small_config(log)))
    assert done.returncode == 0, done.stderr
    assert run_here(report_command.main, run, "--out", out).returncode == 0
    named = re.search(r"python -m tpnet_dist\.evaluate [^.]* --save", read_page(out).text)
    assert named
    done = run_here(evaluate_command.main, *shlex.split(named[0])[3:])
    assert done.returncode == 0, done.stderr
    assert run_here(report_command.main, run, "--out", out).returncode == 0
    shown, kept = read_page(out).text, json.loads((run / "evaluation.json").read_text())
    assert "Not evaluated" not in shown
    for kind in ("random", "historical", "inductive"):
        assert f"{kept['test']['transductive'][kind]['ap']:.4f}" in shown
        assert f"{kept['baselines']['edgebank_unlimited']['test']['transductive'][kind]['ap']:.4f}" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["one", "two", "models"])
def test_a_browser_shows_the_page_without_a_complaint(
    browser: RealBrowser, pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    with browser.open(pages[name], width=width, scheme=scheme) as opened:
        assert opened.ask("document.documentElement.scrollWidth") == width
        assert opened.ask(SMALLEST_TYPE) >= LEAST_TYPE
        contrasts = opened.ask(CONTRASTS)
        picture = opened.picture(tmp_path / "page.png").read_bytes()
    assert opened.complaints == []
    assert opened.requests == [pages[name].resolve().as_uri()]
    assert min(contrasts.values()) >= LEAST_CONTRAST, contrasts
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20]) == (width,)


def test_dark_is_dark_and_light_is_light(browser: RealBrowser, pages: dict[str, Path]) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        with browser.open(pages["one"], width=PHONE, scheme=scheme) as opened:
            colour = opened.ask("getComputedStyle(document.body).backgroundColor")
            brightness[scheme] = sum(int(part) for part in colour.strip("rgb()").split(",")) / 3
    assert brightness["light"] > 230
    assert brightness["dark"] < 40


def test_tables_of_six_settings_fit_a_phone(browser: RealBrowser, pages: dict[str, Path]) -> None:
    with browser.open(pages["one"], width=PHONE, scheme="light") as opened:
        tables = "[...document.querySelectorAll('.pair .scroll')]"
        widths = opened.ask(f"{tables}.map(each => [each.scrollWidth, each.clientWidth])")
    assert len(widths) == 2
    assert all(needed <= there for needed, there in widths), widths


def test_a_missing_browser_is_told_with_its_remedy_and_fails_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    for required, outcome in (("", pytest.skip.Exception), ("1", pytest.fail.Exception)):
        monkeypatch.setenv("TPNET_REQUIRE_BROWSER", required)
        remedy = r"no playwright is here; run pip install -e '\.\[browser\]'"
        with pytest.raises(outcome, match=remedy), real_browser():
            pass


SMALLEST_TYPE = """Math.min(...[...document.querySelectorAll('figure > svg text')].map(each => {
    const svg = each.ownerSVGElement
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width
    return parseFloat(getComputedStyle(each).fontSize) * scale
}))"""

CONTRASTS = """(() => {
    const parts = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
    const light = colour => {
        const linear = c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4
        const [r, g, b] = parts(colour).map(c => linear(c / 255))
        return .2126 * r + .7152 * g + .0722 * b
    }
    const behind = each => {
        const own = getComputedStyle(each).backgroundColor
        return own === 'rgba(0, 0, 0, 0)' ? behind(each.parentElement) : own
    }
    const places = {text: 'main p, main h2', small: '.note', cell: 'td', head: 'thead th', link: 'summary',
                    tile: '.tiles span', axis: 'figure svg text.axis', tick: 'figure svg text.tick'}
    const contrast = selector => {
        const each = document.querySelector(selector), style = getComputedStyle(each)
        const one = light(each.ownerSVGElement ? style.fill : style.color), two = light(behind(each))
        return (Math.max(one, two) + .05) / (Math.min(one, two) + .05)
    }
    return Object.fromEntries(Object.entries(places).map(([name, selector]) => [name, contrast(selector)]))
})()"""
