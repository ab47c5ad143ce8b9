"""`benchmarks.layer_norms`: norms of rows as the definition has them, and the paper's as it prints them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import layer_norms
from benchmarks.layer_norms import PAPER, mean_norms
from tests.support.command_line import run_here
from tests.support.event_logs import write_log
from tests.support.shared_folder import shared_folder
from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.paper_values import paper_dataset
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView


def test_norms_are_those_of_decayed_walks(tmp_path: Path) -> None:
    # 0-1 at time 0, 1-2 at time 10; node 3 meets nobody before the end of the view
    write_log(tmp_path / "log", np.array([0, 1, 3]), np.array([1, 2, 0]), np.array([0, 10, 20]))
    config = small_config(tmp_path / "log", memory={"decay": 0.1, "hops": 2, "width": 4000})
    log = EventLog(tmp_path / "log")
    nodes, layers = mean_norms(config, EventView(log, 0, 2))
    assert nodes == 3
    # projections of so many columns are nearly orthonormal; e^-1 has faded for 10 seconds
    faded = np.exp(-1.0)
    first = [faded, np.hypot(faded, 1.0), 1.0]
    assert layers[0] == pytest.approx(1.0, rel=0.05)
    assert layers[1] == pytest.approx(np.mean(first), rel=0.05)


def test_the_command_shows_each_decay_after_training_and_after_all(tmp_path: Path) -> None:
    log = small_log(tmp_path / "uci", events=300)
    done = run_here(layer_norms.main, "--data", log, "--decays", 1e-7, 1e-4)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["results"]["norms"]
    assert [(one["decay"], one["after"]) for one in found] == [
        (decay, after) for decay in ("1e-07", "0.0001") for after in ("training", "all")
    ]
    # what fades faster is smaller, and the paper's figures are of the preset's λ
    assert all(fast["layers"][1] < slow["layers"][1] for slow, fast in zip(found[:2], found[2:], strict=True))
    assert [one["paper"] for one in found] == [list(PAPER["uci"])] * 2 + [None] * 2


def test_the_papers_norms_are_as_it_prints_them() -> None:
    text = (shared_folder() / "paper" / "tpnet.tex").read_text()
    table = text.split("Average norm of node representations")[1].split("\\end{tabular}")[0]
    rows = re.findall(r"([A-Z][A-Za-z. ]+?) *& (.*?E.*?)\\\\", table)
    assert len(rows) == len(PAPER)
    for name, cells in rows:
        known = paper_dataset(name)
        assert known is not None
        assert tuple(float(cell) for cell in cells.split("&")) == PAPER[known.key]
