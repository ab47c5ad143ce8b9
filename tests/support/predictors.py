"""What tests of predictors share: runs trained for them, and the scores the trainer itself gives."""

from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.event_logs import write_log
from tests.support.training_runs import small_config
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import plan_of, split_of
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.protocols import Passes
from tpnet_dist.evaluation.scoring import EVALUATION_KEY, Scorer
from tpnet_dist.evaluation.tables import Scores
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.training.checkpoint import RunFacts
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.run import open_data, train
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.run_model import RunModel
from tpnet_dist.training.step_folder import write_step

USERS, ITEMS, FEATURES = 12, 9, 3
SHOP_EVENTS = 240


def shop_log(folder: Path, num_events: int = SHOP_EVENTS) -> EventLog:
    """Users and items with id spaces of their own, though both are called 0, 1, x2 …; features, many ties."""
    draw = np.random.default_rng(7)
    sides = ["src"] * USERS + ["dst"] * ITEMS
    names = [f"x{n}" if n == 2 else str(n) for n in (*range(USERS), *range(ITEMS))]
    order = draw.permutation(USERS + ITEMS)
    dense = np.argsort(order)
    return write_log(
        folder,
        dense[draw.integers(0, USERS, num_events)],
        dense[USERS + draw.integers(0, ITEMS, num_events)],
        np.sort(draw.integers(1000, 1000 + num_events // 3, num_events)),
        num_nodes=USERS + ITEMS,
        edge_features=draw.standard_normal((num_events, FEATURES)).astype(np.float32),
        raw_ids=pa.table({"raw_id": [names[n] for n in order], "side": [sides[n] for n in order]}),
    )


def items() -> list[str]:
    return [str(n) if n != 2 else "x2" for n in range(ITEMS)]


def feature_rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, FEATURES))


def untrained_run(config: Config, run: Path) -> Path:
    """A run whose best weights are those drawn, though of its second epoch: made in no time."""
    log = EventLog(config.data.folder)
    torch.manual_seed(0)
    model = spec_of(config).make(config, log.shape)
    facts = RunFacts(0, log.manifest.log_id, dict(values_of(config)))
    with world_of_one() as world:
        checkpoints = RunFolder.start(run, config).checkpoints(facts, keep=1, world=world)
        checkpoints.save_best(model, Progress(epoch=1))
    return run


def untrained_shop(folder: Path) -> Path:
    """An untrained run on the log of `shop_log`, both in `folder`."""
    shop_log(folder / "log")
    config = small_config(folder / "log", memory={"decay": 1e-2}, evaluation={"batch_size": 20})
    return untrained_run(config, folder / "run")


def step_of(config: Config, path: Path) -> Path:
    """A checkpoint folder with weights that were just drawn."""
    log = EventLog(config.data.folder)
    torch.manual_seed(0)
    tensors = {
        f"model/{name}": weight
        for name, weight in spec_of(config).make(config, log.shape).state_dict().items()
    }
    run = RunFacts(0, log.manifest.log_id, dict(values_of(config)))
    with world_of_one() as world:
        write_step(path, tensors, {"progress": asdict(Progress(step=7)), **asdict(run)}, world)
    return path


@dataclass(frozen=True)
class TrainerScores:
    """Of the test part by the trainer: each event, then its random negative."""

    scores_B2: Scores
    negative_B: npt.NDArray[np.int32]


def train_run(world: World, config: Config, run: Path) -> None:
    with redirect_stdout(StringIO()):
        train(config, run, world)


def scores_by_trainer(world: World, config: Config, run: Path) -> TrainerScores:
    """By the best weights, with the memory after training and validation events."""
    data = open_data(config, world)
    parts = RunModel.build(config, data.log, world, seed=0)
    facts = RunFacts(0, data.log.manifest.log_id, {})
    epoch = RunFolder.open(run).checkpoints(facts, keep=1, world=world).load_best(parts.model)
    test = Passes(config, data).over("test")[-1]
    if parts.memory is not None:
        parts.memory.reset(epoch)
        replay(parts.memory, data.log, data.split.train, data.train_plan)
        val = data.split.val
        if config.evaluation.update:
            replay(parts.memory, data.log, val, plan_of(val, config, config.evaluation.batch_size))
    [negatives] = test.universe.negatives(["random"], EVALUATION_KEY)
    scores = Scorer(config, data, parts).score(
        test.view, test.plan, [negatives], memory_time=data.memory_time("test"), links_per_event=2
    )
    drawn = [negatives.draw(events, slice(None)).dst_BC[:, 0] for _, events in test.view.batches(test.plan)]
    return TrainerScores(scores, np.concatenate(drawn))


def replayed_scores(run: Path, config: Config, negative_B: npt.NDArray[np.int32]) -> Scores:
    """The same by a predictor that is told the test events one by one, in the same batches."""
    log = EventLog(config.data.folder)
    test = split_of(log, config.data).test
    predictor = Predictor.load(run, until=test.start, as_evaluated=True)
    raw = log.raw_ids().column("raw_id").to_pylist()
    plan = plan_of(test, config, config.evaluation.batch_size)
    events, features = test.read(0, len(test)), log.edge_features
    scores = np.empty((len(test), 2), np.float32)
    batches = list(plan.batches())
    while batches:
        # a group of equal times may be several batches, which are recorded together
        last = next(n for n, batch in enumerate(batches) if batch.record_stop == batch.stop)
        together, batches = batches[: last + 1], batches[last + 1 :]
        with predictor.batch():
            for n in range(together[0].start, together[-1].stop):
                src, dst = raw[events.columns.src[n]], raw[events.columns.dst[n]]
                time = events.columns.time[n].item()
                scores[n] = predictor.score([src, src], [dst, raw[negative_B[n]]], time)
                row = None if features is None else features[events.index[n : n + 1]]
                predictor.observe([src], [dst], [time], row)
    assert predictor.num_events == len(log)
    return scores


def replayed_scores_of_a_frozen_memory(
    run: Path, config: Config, negative_B: npt.NDArray[np.int32]
) -> Scores:
    """The same where evaluation records nothing: all that follows training is one batch."""
    log = EventLog(config.data.folder)
    split = split_of(log, config.data)
    predictor = Predictor.load(run, until=split.val.start, as_evaluated=True)
    raw = predictor.ids.raw_of(np.arange(log.num_nodes))
    scores = np.empty((len(split.test), 2), np.float32)
    with predictor.batch():
        val = split.val.read(0, len(split.val)).columns
        predictor.observe(raw[val.src], raw[val.dst], val.time)
        test = split.test.read(0, len(split.test)).columns
        for n in range(len(test)):
            src, dst, time = raw[test.src[n]], raw[test.dst[n]], test.time[n].item()
            scores[n] = predictor.score([src, src], [dst, raw[negative_B[n]]], time)
            predictor.observe([src], [dst], [time])
    return scores
