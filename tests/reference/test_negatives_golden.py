"""Negatives of the published samplers on UCI: the same candidates, of which a batch takes distinct ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from benchmarks.rank_pool import world_of_one
from tests.support.event_logs import write_log
from tests.support.seen_candidates import candidates_of
from tests.support.shared_folder import shared_folder
from tests.support.training_runs import small_config
from tpnet_dist.batches.negatives import SeenNegatives
from tpnet_dist.batches.run_data import RunData
from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.evaluation.protocols import Passes
from tpnet_dist.evaluation.scoring import EVALUATION_KEY
from tpnet_dist.events.split import PartName

KINDS: tuple[NegativeKind, ...] = ("historical", "inductive")
BATCH_SIZE = 200


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    path = shared_folder() / "reference/negatives_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    with np.load(path) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passes]:
    path = shared_folder() / "data/uci/ml_uci.csv"
    rows = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(1, 2, 3))
    folder: Path = tmp_path_factory.mktemp("uci") / "log"
    # raw ids are the published ones, by which new nodes are drawn
    write_log(folder, rows[:, 0].astype(int) - 1, rows[:, 1].astype(int) - 1, rows[:, 2].astype(int))
    config = small_config(folder, evaluation={"batch_size": BATCH_SIZE}, data={"new_node_share": 0.1})
    with world_of_one() as world:
        yield Passes(config, RunData.open(config, world))


@pytest.mark.parametrize("part", get_args(PartName))
def test_candidates_are_the_published_ones(golden: dict[str, Any], passes: Passes, part: PartName) -> None:
    each = passes.over(part)[-1]
    assert len(each.view) == golden[f"{part}_events"]
    batches = [events for _, events in each.view.batches(each.plan)]
    sources = dict(zip(KINDS, each.universe.negatives(KINDS, EVALUATION_KEY), strict=True))
    numbers = [key.split("/")[1] for key in golden if key.startswith(f"{part}/") and "edge_ids" in key]
    for name in numbers:
        batch = batches[int(name.removeprefix("batch"))]
        assert (batch.index + 1).tolist() == golden[f"{part}/{name}/edge_ids"].tolist()
        for kind, source in sources.items():
            assert isinstance(source, SeenNegatives)
            wanted = {tuple(edge) for edge in golden[f"{part}/{kind}/{name}/edges"].tolist()}
            src_A, dst_A = candidates_of(source.edges, batch)
            found = list(zip((src_A + 1).tolist(), (dst_A + 1).tolist(), strict=True))
            assert len(found) == len(wanted) and set(found) == wanted
            drawn = source.draw(batch, slice(None))
            assert drawn.src_B is not None
            taken = list(zip((drawn.src_B + 1).tolist(), (drawn.dst_BC[:, 0] + 1).tolist(), strict=True))
            assert len(set(taken)) == len(batch)
            # random pairs come first, and may be candidates by chance
            missing = max(0, len(batch) - len(wanted))
            assert set(taken[missing:]) <= wanted
            true = set(zip((batch.columns.src + 1).tolist(), (batch.columns.dst + 1).tolist(), strict=True))
            assert not set(taken) & true
