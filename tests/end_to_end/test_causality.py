"""No score depends on what comes later: real data folders, planner, memory and model, with fixed weights.

An event's score comes from the memory before its batch and from neighbours strictly before its time. So a
change of one event, or of all from it on, which keeps the order of the log

    events       changes no score of an event before it, nor of one of its own batch at its own time
    timestamps   changes no score of an earlier time, nor, unless times change, of its own time

where its own score does not count, except that features of an event are no part of its own score, and its
destination none of its negative's. If times change, `timestamps` makes other batches from the earlier of the
old and the new time on: who else there is at one's own time says which batch one is in.

Negatives are given: drawn ones may depend on the distinct destinations of the whole log, by definition.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.rank_pool import world_of_one
from tests.support.event_logs import write_log
from tests.support.given_negatives import GivenNegatives
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import RunData, plan_of
from tpnet_dist.config.schema import Config, DataConfig, EvaluationConfig, MemoryConfig
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.protocols import Evaluator, Passes
from tpnet_dist.evaluation.scoring import Scorer
from tpnet_dist.evaluation.tables import Scores
from tpnet_dist.events.view import EventView
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.training.run_model import RunModel

NUM_EVENTS, NUM_NODES, BATCH_SIZE = 48, 9, 5
CHANGED = (7, 15, 22, 26, 31)
SAME = 2e-6
"""Float32 sums of another batch may be added in another order."""

Arrays = npt.NDArray[Any]


@dataclass(frozen=True)
class Log:
    """Events with many ties, among them groups larger than a batch."""

    src: Arrays
    dst: Arrays
    time: Arrays
    labels: Arrays
    edge_features: Arrays

    @classmethod
    def random(cls) -> "Log":
        draw = np.random.default_rng(4)
        src, dst = draw.integers(0, NUM_NODES, (2, NUM_EVENTS))
        time = np.sort(draw.integers(0, NUM_EVENTS // 3, NUM_EVENTS))
        time[20:28] = time[20]
        features = draw.standard_normal((NUM_EVENTS, 3)).astype(np.float32)
        return cls(src, dst, np.sort(time), draw.integers(0, 2, NUM_EVENTS), features)

    def copy(self) -> "Log":
        return Log(*(column.copy() for column in vars(self).values()))

    def write(self, folder: Path) -> None:
        write_log(
            folder,
            self.src,
            self.dst,
            self.time,
            num_nodes=NUM_NODES,
            labels=self.labels,
            edge_features=self.edge_features,
        )


# ---- what may change, from event j on ----------------------------------------------------------------------


def other_ends(log: Log, j: int) -> None:
    log.src[j], log.dst[j] = (log.dst[j] + 3) % NUM_NODES, (log.src[j] + 4) % NUM_NODES


def other_destination(log: Log, j: int) -> None:
    log.dst[j] = (log.dst[j] + 1) % NUM_NODES


def other_features(log: Log, j: int) -> None:
    log.edge_features[j] += 1


def earlier(log: Log, j: int) -> None:
    log.time[j] = log.time[j - 1]


def later(log: Log, j: int) -> None:
    log.time[j:] += 2


def another_future(log: Log, j: int) -> None:
    log.src[j:], log.dst[j:] = log.dst[j:][::-1].copy(), log.src[j:][::-1].copy()
    log.edge_features[j:] *= -1
    log.time[j:] += np.arange(NUM_EVENTS - j) // 2


Change = Callable[[Log, int], None]
CHANGES: tuple[Change, ...] = (
    other_ends,
    other_destination,
    other_features,
    earlier,
    later,
    another_future,
)


def must_stay(change: Change, batching: str, before: Log, after: Log, j: int) -> npt.NDArray[np.bool_]:
    """Which scores must not change: (N, X)."""
    number_B, time = np.arange(NUM_EVENTS), before.time
    stays_B = number_B < j
    if batching == "timestamps":
        stays_B = time < min(time[j], after.time[j])
    if change in (other_ends, other_destination, other_features):
        is_near_B = number_B // BATCH_SIZE == j // BATCH_SIZE if batching == "events" else True
        stays_B = stays_B | ((time == time[j]) & is_near_B & (number_B != j))
    stays_BX = np.repeat(stays_B[:, None], 2, axis=1)
    stays_BX[j] |= change is other_features
    stays_BX[j, 1] |= change is other_destination
    return stays_BX


# ---- scores ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_of_one() as world:
        yield world


def config_for(folder: Path, **model: Any) -> Config:
    batching = model.pop("batching", "events")
    return Config(
        data=DataConfig(folder=str(folder), batching=batching, new_node_share=0.0),
        memory=MemoryConfig(decay=0.05, hops=2, width=6),
        model=TPNetConfig(neighbors=4, channels=12, time_width=8, mixer_layers=1, **model),
        evaluation=EvaluationConfig(batch_size=BATCH_SIZE),
    )


def parts_of(config: Config, world: World) -> tuple[RunData, RunModel]:
    data = RunData.open(config, world)
    return data, RunModel.build(config, data.log, world, seed=0)


def scores_of(log: Log, config: Config, world: World) -> Scores:
    """Of all events from an empty memory on, each against one given negative."""
    log.write(Path(config.data.folder))
    data, parts = parts_of(config, world)
    everything = EventView(data.log, 0, len(data.log))
    plan = plan_of(everything, config, BATCH_SIZE)
    negatives = GivenNegatives(np.random.default_rng(5).integers(0, NUM_NODES, NUM_EVENTS).astype(np.int32))
    return Scorer(config, data, parts).score(
        everything, plan, [negatives], memory_time=0.0, links_per_event=2
    )


@cache
def random_log() -> Log:
    return Log.random()


@pytest.mark.parametrize(
    ("profile", "sampling"),
    [
        ("paper", "uniform"),
        ("published", "recent"),
        pytest.param("paper", "recent", marks=pytest.mark.slow),
        pytest.param("published", "uniform", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("batching", ["events", "timestamps"])
def test_no_score_depends_on_what_comes_later(
    tmp_path: Path, world: World, batching: str, profile: str, sampling: str
) -> None:
    def scores(log: Log, name: str) -> Scores:
        settings = {"batching": batching, "profile": profile, "sampling": sampling}
        return scores_of(log, config_for(tmp_path / name, **settings), world)

    log = random_log()
    unchanged_BX = scores(log, "unchanged")
    for change in CHANGES:
        for j in CHANGED:
            changed = log.copy()
            change(changed, j)
            apart_BX = np.abs(scores(changed, f"{change.__name__}-{j}") - unchanged_BX)
            stays_BX = must_stay(change, batching, log, changed, j)
            moved = np.argwhere(stays_BX & ~(apart_BX < SAME))
            assert not len(moved), f"{change.__name__} of event {j} moves scores {moved.tolist()}"
            # an event that is as early as the one before it cannot come earlier
            if change is not earlier or log.time[j] > log.time[j - 1]:
                assert apart_BX[~stays_BX].max() > 1e-4, f"{change.__name__} of event {j} moves nothing"


@pytest.mark.parametrize("batching", ["events", "timestamps"])
def test_labels_change_nothing_at_all(tmp_path: Path, world: World, batching: str) -> None:
    log = random_log()
    relabelled = replace(log, labels=1 - log.labels)
    unchanged_BX, relabelled_BX = (
        scores_of(each, config_for(tmp_path / name, batching=batching), world)
        for name, each in (("log", log), ("relabelled", relabelled))
    )
    np.testing.assert_array_equal(unchanged_BX, relabelled_BX)


# ---- figures -----------------------------------------------------------------------------------------------


def figures_of(log: Log, config: Config, world: World) -> dict[str, Any]:
    """Of the validation part, after the training part, with negatives of every kind."""
    log.write(Path(config.data.folder))
    data, parts = parts_of(config, world)
    assert parts.memory is not None
    replay(parts.memory, data.log, data.split.train, data.train_plan)
    evaluator = Evaluator(Scorer(config, data, parts), Passes(config, data))
    kinds = ("random", "historical", "inductive")
    figures: dict[str, Any] = evaluator.evaluate("val", kinds=kinds, mrr_negatives=3)
    return figures


@pytest.mark.parametrize("batching", ["events", "timestamps"])
def test_validation_figures_do_not_depend_on_the_test_part(
    tmp_path: Path, world: World, batching: str
) -> None:
    log = random_log()
    config = config_for(tmp_path / "log", batching=batching)
    log.write(tmp_path / "log")
    start = RunData.open(config, world).split.test.start
    changed = log.copy()
    # the same sources and destinations, so that negatives are drawn from the same; but other edges
    changed.src[start:] = np.roll(changed.src[start:], 1)
    changed.edge_features[start:] += 1
    changed.labels[start:] += 1
    figures = figures_of(log, config, world)
    others = figures_of(changed, config_for(tmp_path / "changed", batching=batching), world)
    assert figures.keys() == others.keys()
    for setting, by_kind in figures.items():
        for kind, values in by_kind.items():
            assert others[setting][kind] == pytest.approx(values, abs=1e-6), (setting, kind)
