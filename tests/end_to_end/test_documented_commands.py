"""Every command the README and docs/ show is run: here, page by page, or by a test that is named."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.command_line import ROOT, convert, run_here
from tests.support.documented_commands import (
    LARGER,
    SMALL_SETTINGS,
    Documented,
    blocks_of,
    commands_of,
    mentioned_commands,
    pages,
)
from tests.support.serving_process import ServingProcess
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import train as train_command
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.models.tpnet.published_names import to_published

SECONDS = 240
ALL = [command for page in pages() for command in commands_of(page)]
HERE = [one for one in ALL if not one.is_set_up() and not one.elsewhere()]
PAGES = sorted({one.page for one in HERE})
PYTHON_BLOCKS = [
    (str(page.relative_to(ROOT)), number)
    for page in pages()
    for number in range(len(blocks_of(page, "python")))
]
RUNS = ("mine", "uci", "uci-seed-0", "uci-seed-1", "uci-timestamps", "uci-0", "uci-1")
LAST = 1_700_000_000
"""When the last event of the user's log was, by what docs/prediction.md asks about."""
QUICK_START = "docs/quick-start.md"
EVERY_DAY = "docs/new-data-every-day.md"
CHEAP = ("docs/report.md", "docs/synthetic-logs.md")
"""Pages whose commands take a few seconds; `make test` runs them."""


def shell(command: str, folder: Path) -> None:
    """As a user types it, in a folder that has all the pages speak of."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def csv(path: Path, *lines: str) -> None:
    path.write_text("\n".join([*lines, ""]))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: raw events, data folders, finished runs, of which some have seed 1, lists to score."""
    folder = tmp_path_factory.mktemp("documented")
    draw = np.random.default_rng(3)
    users, items = ["ann", "bob", *(f"u{n}" for n in range(28))], ["x", "y", *(f"i{n}" for n in range(18))]
    drawn = zip(draw.permutation(600) % 30, draw.integers(0, 20, 600), strict=True)
    rows = [f"{users[u]},{items[i]},{LAST + 60 * (n - 599)}" for n, (u, i) in enumerate(drawn)]
    csv(folder / "events.csv", "user,item,when", *rows)
    csv(folder / "pairs.csv", "src,dst", "ann,x", "bob,y")
    csv(folder / "users.csv", "src", "ann", "bob")
    csv(folder / "items.csv", "dst", *items)
    csv(folder / "today.csv", "src,dst,time", f"ann,x,{LAST + 60}", f"new,y,{LAST + 120}")
    csv(folder / "links.csv", "src,dst", "1,2", "2,3")
    for night, name in enumerate(("tonight", "tomorrow")):
        later = [f"{users[n % 30]},{items[n % 20]},{LAST + 3600 * (night + 1) + n}" for n in range(120)]
        csv(folder / f"{name}.csv", "user,item,when", *later, f"new{night},x,{LAST + 3600 * (night + 2)}")
    (folder / "small.toml").write_text(SMALL_SETTINGS)
    for name in ("launch", "tests", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("uci", "wikipedia", "can_parl"):
        small_log(folder / "data" / name, events=600)
    names = ("--src", "user", "--dst", "item", "--time", "when")
    convert(folder / "events.csv", folder / "data" / "mine", *names, "--bipartite")
    small = small_config(folder / "data" / "uci")
    for data in ("mine", "uci"):
        args = [folder / "data" / data, "--run-dir", folder / "runs" / data, *flags_of(small)]
        assert run_here(train_command.main, *args).returncode == 0
    small_log(folder / "data" / LARGER, events=4000)
    for name in RUNS[2:]:
        if not name.endswith("-1"):
            shutil.copytree(folder / "runs" / "uci", folder / "runs" / name)
            continue
        args = [folder / "data" / "uci", "--run-dir", folder / "runs" / name, *flags_of(small)]
        assert run_here(train_command.main, *args, "--training.seed", 1).returncode == 0
    (folder / "RUN").symlink_to("runs/mine")
    released = to_published(
        spec_of(small).make(small, EventLog(small.data.folder).shape), node_width=16, edge_width=16
    )
    torch.save(released, folder / "TPNet.pkl")
    return folder


@pytest.fixture
def folder(shop: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(shop, tmp_path / "shop", symlinks=True))


def run_page(page: str, folder: Path) -> None:
    for one in [one for one in HERE if one.page == page]:
        if " --run-dir " in one.command:
            shutil.rmtree(folder / one.command.split(" --run-dir ")[1].split()[0], ignore_errors=True)
        shell(one.small(), folder)


def test_commands_of_the_quick_start_do_what_they_say(tmp_path: Path) -> None:
    run_page(QUICK_START, tmp_path)
    assert len((tmp_path / "best.csv").read_text().splitlines()) == 1 + 2 * 5
    assert "</html>" in (tmp_path / "first.html").read_text()


@pytest.mark.parametrize("page", CHEAP)
def test_commands_of_short_pages_run(folder: Path, page: str) -> None:
    run_page(page, folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in (QUICK_START, *CHEAP)])
def test_commands_of_the_pages_run(folder: Path, page: str) -> None:
    run_page(page, folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_nightly_script_learns_from_two_nights(folder: Path) -> None:
    [script] = blocks_of(ROOT / EVERY_DAY, "sh")
    (folder / "nightly.sh").write_text(script)
    (folder / "runs" / "newest").write_text("runs/mine\n")
    for night, name in enumerate(("tonight", "tomorrow")):
        os.utime(folder / f"{name}.csv", (LAST + 86400 * night,) * 2)
        shell(f"sh nightly.sh {name}.csv", folder)
        newest = folder / (folder / "runs" / "newest").read_text().strip()
        assert (newest / "evaluation.json").exists()
        assert len((folder / "best.csv").read_text().splitlines()) == 1 + 2 * 5
    log = EventLog(folder / "data" / "mine")
    assert [version.events for version in log.manifest.history] == [600, 721, 842]
    # a night that was broken off at its end is repeated
    shell("python -m data_prep append tomorrow.csv data/mine", folder)
    assert len(EventLog(folder / "data" / "mine")) == 842


@pytest.mark.parametrize(("page", "number"), PYTHON_BLOCKS)
def test_python_of_the_pages_runs_as_it_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page: str, number: int
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(blocks_of(ROOT / page, "python")[number], page, "exec"), {})


def test_the_walk_through_of_serving_answers_as_shown(folder: Path) -> None:
    text = "".join((ROOT / page).read_text() for page in ("README.md", "docs/serving.md"))
    shown = re.findall(r"^\$ curl -s localhost:8080(/\S+)(?:.*-d '(.*)')?\n(\{.*)$", text, flags=re.MULTILINE)
    assert len(shown) == 6
    with ServingProcess.start(folder / "runs" / "mine", folder) as server:
        assert "ready at" in server.text() and "600 events, 0 of them observed" in server.text()
        client = server.client()
        for path, body, answer in shown:
            given = client.send("POST", path, body.encode()) if body else client.get(path)
            assert_alike(given.json, json.loads(answer))
        assert server.stop() == 0
    with ServingProcess.start(folder / "runs" / "mine", folder) as again:
        assert "601 events, 1 of them observed" in again.text()


def assert_alike(given: object, shown: object) -> None:
    """The same but for numbers and names that depend on how long the model was trained."""
    if isinstance(shown, dict) and isinstance(given, dict):
        assert list(given) == list(shown)
        for name in set(shown) - {"log"}:
            assert_alike(given[name], shown[name])
    elif isinstance(shown, list) and isinstance(given, list):
        assert len(given) == len(shown)
        for one, other in zip(given, shown, strict=True):
            assert_alike(one, other)
    elif isinstance(shown, float) or (isinstance(shown, str) and "ids" not in shown):
        assert type(given) is type(shown)
    else:
        assert given == shown


@pytest.mark.parametrize("one", [one for one in ALL if one.elsewhere()], ids=lambda one: one.command[:60])
def test_what_the_pages_leave_out_has_a_test_of_its_own(one: Documented) -> None:
    test, script = one.elsewhere(), re.search(r"launch/(\S+)", one.command)
    assert test and script
    assert f'"{script[1]}"' in inspect.getsource(test)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_command_is_shown_where_no_test_looks(page: Path) -> None:
    commands = [one.command for one in ALL]
    escaped = [
        args for args in mentioned_commands(page) if not any(each.startswith(args) for each in commands)
    ]
    assert escaped == [], "put them into a bash block"
