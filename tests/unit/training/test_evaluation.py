"""Protocols on a small real log: which events are scored, from which memory, and that it is put back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from benchmarks.rank_pool import world_of_one
from tests.support.training_runs import small_config, small_log
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import RunData
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation import scoring
from tpnet_dist.evaluation.baselines import baseline_figures
from tpnet_dist.evaluation.protocols import Evaluator, Passes
from tpnet_dist.evaluation.results import mean_and_deviation
from tpnet_dist.evaluation.scoring import Scorer
from tpnet_dist.evaluation.tables import tabulate
from tpnet_dist.training.run_log import flat
from tpnet_dist.training.run_model import RunModel

KINDS = ("random", "historical", "inductive")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("evaluation") / "log", events=600)


@pytest.fixture
def world() -> Iterator[World]:
    with world_of_one() as world:
        yield world


def evaluator_of(folder: Path, world: World, **sections: dict[str, Any]) -> Evaluator:
    """With the memory after training events, and weights as drawn."""
    config = small_config(folder, **sections)
    data = RunData.open(config, world)
    parts = RunModel.build(config, data.log, world, seed=0)
    if parts.memory is not None:
        replay(parts.memory, data.log, data.split.train, data.train_plan)
    return Evaluator(Scorer(config, data, parts), Passes(config, data))


def rows_of(evaluator: Evaluator) -> torch.Tensor:
    memory = evaluator.scorer.parts.memory
    assert memory is not None
    return memory.table.rows_NLD.clone()


def test_the_memory_ends_as_if_the_part_had_only_been_recorded(folder: Path, world: World) -> None:
    scored, recorded = (evaluator_of(folder, world) for _ in range(2))
    scored.evaluate("val", kinds=KINDS, mrr_negatives=3)
    memory, data = recorded.scorer.parts.memory, recorded.scorer.data
    assert memory is not None
    replay(memory, data.log, data.split.val, scored.passes.over("val")[-1].plan)
    assert torch.equal(rows_of(scored), rows_of(recorded))


def test_ranked_events_do_not_count_as_slowly_scored_ones(folder: Path, world: World) -> None:
    evaluator = evaluator_of(folder, world)
    evaluator.evaluate("val", kinds=KINDS, mrr_negatives=3)
    scored, ranked = evaluator.scorer.speed, evaluator.scorer.ranking_speed
    num_events = sum(len(each.view) for each in evaluator.passes.over("val"))
    assert (scored.events, scored.links) == (num_events, 4 * num_events)
    assert (ranked.events, ranked.links) == (num_events, 4 * num_events)
    speeds = evaluator.scorer.events_per_second()
    assert speeds.score == num_events / scored.seconds
    assert speeds.links == 8 * num_events / (scored.seconds + ranked.seconds)


def test_scores_are_gathered_by_the_group_of_hosts(
    folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as ranking makes, they would fill a GPU."""
    hosts = dist.new_group(backend="gloo", timeout=world.timeout)
    used: list[object] = []

    def gather(values: torch.Tensor, group: object) -> list[torch.Tensor]:
        used.append(group)
        return [values]

    monkeypatch.setattr(scoring, "gather_varied", gather)
    evaluator_of(folder, replace(world, host_group=hosts)).evaluate("val", kinds=KINDS, mrr_negatives=3)
    assert set(used) == {hosts}


def test_a_frozen_memory_stays_as_it_was(folder: Path, world: World) -> None:
    evaluator = evaluator_of(folder, world, evaluation={"update": False})
    before = rows_of(evaluator)
    evaluator.evaluate("val", kinds=("random",))
    assert torch.equal(rows_of(evaluator), before)


def test_evaluating_twice_from_the_same_memory_gives_the_same(folder: Path, world: World) -> None:
    evaluator = evaluator_of(folder, world, evaluation={"update": False})
    figures = [evaluator.evaluate("test", kinds=KINDS, mrr_negatives=3) for _ in range(2)]
    assert figures[0] == figures[1]


def test_transductive_figures_do_not_depend_on_the_protocol(folder: Path, world: World) -> None:
    dyglib, stream = (
        evaluator_of(folder, world, evaluation={"protocol": protocol}).evaluate("val", kinds=KINDS)
        for protocol in ("dyglib", "stream")
    )
    assert dyglib["transductive"] == stream["transductive"]
    assert dyglib["inductive"] != stream["inductive"]


def test_without_unseen_nodes_there_are_no_inductive_figures(folder: Path, world: World) -> None:
    evaluator = evaluator_of(folder, world)
    evaluator.scorer.data.split.unseen_nodes[:] = False
    assert set(evaluator.evaluate("val", kinds=("random",))) == {"transductive"}


def test_a_model_without_memory_is_evaluated_too(folder: Path, world: World) -> None:
    figures = evaluator_of(folder, world, memory={"enabled": False}).evaluate("val", kinds=KINDS)
    assert set(figures) == {"transductive", "inductive"}


def test_edge_bank_has_figures_for_the_same_settings(folder: Path, world: World) -> None:
    for protocol in ("dyglib", "stream"):
        evaluator = evaluator_of(folder, world, evaluation={"protocol": protocol})
        ours = evaluator.evaluate("test", kinds=KINDS)
        for figures in baseline_figures(evaluator.passes, "test", KINDS).values():
            assert flat(figures).keys() == flat(ours).keys()


def test_columns_go_to_their_kinds() -> None:
    scores = np.array([[2.0, 1.0, 3.0], [2.0, 1.0, 3.0]], dtype=np.float32)
    found = tabulate(("random", "historical"), scores, np.array([0, 2]), ranked_BX=scores)
    assert found["random"]["auc"] == 1.0
    assert found["historical"]["auc"] == 0.0
    assert found["random"]["mrr"] == 0.5
    assert "mrr" not in found["historical"]


def test_mean_and_deviation_go_number_by_number() -> None:
    mean, deviation = mean_and_deviation([{"a": {"ap": 0.5}, "n": 1}, {"a": {"ap": 0.7}, "n": 3}])
    assert mean == {"a": {"ap": pytest.approx(0.6)}, "n": 2.0}
    assert deviation == {"a": {"ap": pytest.approx(0.2 / 2**0.5)}, "n": pytest.approx(2**0.5)}
