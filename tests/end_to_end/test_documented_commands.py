"""Every command the README and docs/ show is run: here, page by page, or by a test that is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import ROOT
from tests.documented_commands import SMALL_SETTINGS, Documented, commands_of, pages
from tests.training_runs import flags_of, small_config, small_log

SECONDS = 240
ALL = [command for page in pages() for command in commands_of(page)]
HERE = [one for one in ALL if not one.is_set_up() and not one.elsewhere()]
PAGES = sorted({one.page for one in HERE})
RUNS = ("mine", "uci", "uci-seed-0", "uci-seed-1", "uci-timestamps", "uci-0", "uci-1")
IN_MAKE_TEST = "docs/quick-start.md"


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
    """A user's folder: raw events, data folders, a finished run, lists of what to score."""
    folder = tmp_path_factory.mktemp("documented")
    draw = np.random.default_rng(3)
    users, items = draw.integers(0, 30, 600), draw.integers(0, 20, 600)
    rows = [f"u{u},i{i},{1_700_000_000 + 60 * n}" for n, (u, i) in enumerate(zip(users, items, strict=True))]
    csv(folder / "events.csv", "user,item,when", *rows)
    csv(folder / "pairs.csv", "src,dst", "u1,i2", "u2,i3")
    csv(folder / "users.csv", "src", "u1", "u2")
    csv(folder / "items.csv", "dst", *(f"i{n}" for n in range(20)))
    csv(folder / "today.csv", "src,dst,time", "u1,i2,1700100000", "new,i3,1700100060")
    (folder / "small.toml").write_text(SMALL_SETTINGS)
    (folder / "launch").symlink_to(ROOT / "launch")
    for name in ("uci", "wikipedia"):
        small_log(folder / "data" / name, events=600)
    shell(
        "python -m data_prep convert events.csv data/mine --src user --dst item --time when --bipartite",
        folder,
    )
    small = " ".join(flags_of(small_config(folder)))
    for data in ("mine", "uci"):
        shell(f"python -m tpnet_dist.train data/{data} --run-dir runs/{data} {small}", folder)
    for name in RUNS[2:]:
        shutil.copytree(folder / "runs" / "uci", folder / "runs" / name)
    (folder / "RUN").symlink_to("runs/mine")
    return folder


def run_page(page: str, folder: Path) -> None:
    for one in [one for one in HERE if one.page == page]:
        if " --run-dir " in one.command:
            shutil.rmtree(folder / one.command.split(" --run-dir ")[1].split()[0], ignore_errors=True)
        shell(one.small(), folder)


def test_commands_of_the_quick_start_do_what_they_say(tmp_path: Path) -> None:
    run_page(IN_MAKE_TEST, tmp_path)
    assert len((tmp_path / "best.csv").read_text().splitlines()) == 1 + 2 * 5
    assert "</html>" in (tmp_path / "first.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [page for page in PAGES if page != IN_MAKE_TEST])
def test_commands_of_the_pages_run(shop: Path, tmp_path: Path, page: str) -> None:
    shutil.copytree(shop, tmp_path / "page", symlinks=True)
    run_page(page, tmp_path / "page")


@pytest.mark.parametrize("one", [one for one in ALL if one.elsewhere()], ids=lambda one: one.command[:60])
def test_what_the_pages_leave_out_has_a_test_of_its_own(one: Documented) -> None:
    test, word = one.elsewhere() or ("", "")
    assert word in (ROOT / test).read_text()
