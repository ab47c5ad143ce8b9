"""Any number of ranks trains the same: losses, figures and weights, in both batching modes."""

import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rank_pool import PoolWorld, RankPools
from tests.support.event_logs import random_log, write_log
from tests.support.training_runs import small_config, small_log
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.protocols import Passes
from tpnet_dist.files.progress import Display
from tpnet_dist.files.typed_json import to_json
from tpnet_dist.models.cawn.config import CAWNConfig
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.tcl.config import TCLConfig
from tpnet_dist.models.tgat.config import TGATConfig
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts
from tpnet_dist.training.metrics_file import METRICS_NAME
from tpnet_dist.training.run import evaluate, open_data, train
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.run_log import RunLog, flat
from tpnet_dist.training.run_model import RunModel
from tpnet_dist.training.step_profile import ProfileRequest
from tpnet_dist.training.trainer import SeedTrainer

LAST_BIT = 2e-16
"""Losses of microbatches are added up in float64 for the log, in any order; of float32 nothing differs."""
TOLERANCE = 1e-5
"""Where sums are made in another order."""
FIGURE_TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("parity") / "log", events=700)


def train_on(
    world: World, config: Config, run: Path, profile: ProfileRequest | None = None
) -> dict[str, Any]:
    """Figures, and on the first rank the loss of every step."""
    data = open_data(config, world)
    run.mkdir(exist_ok=True)
    log = RunLog(run) if world.rank == 0 else None
    facts = RunFacts(0, data.log.manifest.log_id, {})
    checkpoints = CheckpointFolder(run, keep=1, run=facts, world=world)
    trainer = SeedTrainer(
        config,
        data,
        0,
        passes=Passes(config, data),
        checkpoints=checkpoints,
        log=log,
        display=Display(),
        profile=profile,
    )
    results = to_json(trainer.train())
    if log is not None:
        log.close()
        lines = map(json.loads, (run / METRICS_NAME).read_text().splitlines())
        results["losses"] = [line["loss"] for line in lines if line["kind"] == "step"]
    return {name: results[name] for name in ("val", "test", "losses") if name in results}


ONE_EPOCH = {"epochs": 1}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "events, two epochs": {},
    "timestamps": {"data": {"batching": "timestamps"}, "training": ONE_EPOCH},
    "two timescales, timestamps": {
        "data": {"batching": "timestamps"},
        "memory": {"decay": (1e-7, 1e-5)},
        "training": ONE_EPOCH,
    },
    "paper profile": {"model": {"profile": "paper"}, "training": ONE_EPOCH},
    # of four, one always has an empty slice; steps of so few events soon make much of a rounding
    "batches of three": {"training": {"batch_size": 3, "max_steps": 30, **ONE_EPOCH}},
    "two batches a step": {"training": {"batches_per_step": 2, **ONE_EPOCH}},
    "uniform neighbours, historical negatives": {
        "model": {"sampling": "uniform"},
        "training": {"negatives": "historical", **ONE_EPOCH},
    },
    "float64": {"training": {"precision": "float64", **ONE_EPOCH}},
    "no memory": {"memory": {"enabled": False}, "training": ONE_EPOCH},
    "stream, all negatives, ranking": {
        "training": ONE_EPOCH,
        "evaluation": {
            "protocol": "stream",
            "negatives": ("random", "historical", "inductive"),
            "mrr_negatives": 7,
        },
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_to_four_ranks_train_the_same(
    rank_pools: RankPools, folder: Path, tmp_path: Path, variant: str
) -> None:
    """To the last bit, but with several batches a step, whose gradients each rank adds up first."""
    is_exact = variant != "two batches a step"
    require_parity(rank_pools, small_config(folder, **VARIANTS[variant]), tmp_path, is_exact=is_exact)


SMALL_MODELS: dict[str, Any] = {
    "graphmixer": GraphMixerConfig(neighbors=4, time_width=8, channels=16, mixer_layers=1, time_gap=9),
    "dygformer": DyGFormerConfig(
        sequence_length=8, patch_size=2, time_width=8, part_channels=4, channels=16, heads=2
    ),
    "dygformer, corrected": DyGFormerConfig(
        profile="corrected", sequence_length=6, patch_size=3, time_width=8, part_channels=4, channels=16
    ),
    "tcl": TCLConfig(neighbors=4, time_width=8, channels=16),
    "tgat": TGATConfig(neighbors=4, time_width=8, channels=16),
    "cawn": CAWNConfig(neighbors=4, time_width=8, position_width=8, channels=16, edge_channels=16, heads=2),
}


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_models_without_memory_train_the_same_on_one_to_four_ranks(
    rank_pools: RankPools, tmp_path: Path, name: str
) -> None:
    """With node features, of which GraphMixer takes means over further neighbours."""
    rng, folder = np.random.default_rng(0), tmp_path / "log"
    edge, node = (rng.standard_normal(shape, dtype=np.float32) for shape in ((400, 3), (40, 2)))
    src, dst = rng.integers(0, 40, (2, 400))
    write_log(folder, src, dst, np.sort(rng.integers(0, 10**6, 400)), edge_features=edge, node_features=node)
    models = {"recent": SMALL_MODELS[name]}
    if not isinstance(SMALL_MODELS[name], DyGFormerConfig):
        sampling = "time_interval_aware" if name == "cawn" else "uniform"
        models |= {each: replace(SMALL_MODELS[name], sampling=each) for each in ("recent", sampling)}
    for sampling, model in models.items():
        config = replace(small_config(folder, training=ONE_EPOCH), model=model)
        require_parity(rank_pools, config, tmp_path / sampling)


def test_with_other_microbatches_ranks_train_the_same_but_for_rounding(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    """Two each on four ranks; where there is one only, one for each rank."""
    config = small_config(folder, training={"microbatches": 8, **ONE_EPOCH})
    require_parity(rank_pools, config, tmp_path / "eight")
    config = small_config(folder, training={"microbatches": 1, **ONE_EPOCH})
    require_parity(rank_pools, config, tmp_path / "one", is_exact=False)


def test_in_float64_ranks_differ_by_its_rounding_alone(rank_pools: RankPools, tmp_path: Path) -> None:
    """With features, whose type is the model's, and dropout."""
    rng, folder = np.random.default_rng(0), tmp_path / "log"
    edge, node = (rng.standard_normal(shape, dtype=np.float32) for shape in ((900, 3), (40, 2)))
    src, dst = rng.integers(0, 40, (2, 900))
    write_log(folder, src, dst, np.sort(rng.integers(0, 10**6, 900)), edge_features=edge, node_features=node)
    config = small_config(folder, training={"precision": "float64"})
    [alone], [first, *_] = (
        rank_pools[ranks].run(train_on, config, tmp_path / str(ranks)) for ranks in (1, 4)
    )
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-12)


def test_groups_of_equal_times_larger_than_a_batch_train_the_same(
    rank_pools: RankPools, tmp_path: Path
) -> None:
    require_parity(rank_pools, config_of_groups(tmp_path / "log"), tmp_path, settings=("transductive",))


def config_of_groups(folder: Path, *, batch_size: int = 10, **model: object) -> Config:
    """Of a log whose groups of equal times are larger than a batch; `model`: settings of the model."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 30, (2, 300))
    write_log(folder, src, dst, np.sort(rng.integers(0, 18, 300)))
    return small_config(
        folder,
        data={"batching": "timestamps"},
        training={"batch_size": batch_size, "epochs": 1},
        evaluation={"batch_size": batch_size},
        model=model,
    )


def require_parity(
    rank_pools: RankPools,
    config: Config,
    tmp_path: Path,
    settings: tuple[str, ...] = ("transductive", "inductive"),
    *,
    is_exact: bool = True,
) -> None:
    tmp_path.mkdir(exist_ok=True)
    outcomes = {
        ranks: rank_pools[ranks].run(train_on, config, tmp_path / str(ranks)) for ranks in (1, 2, 3, 4)
    }
    [alone] = outcomes[1]
    losses = alone.pop("losses")
    assert set(settings) <= set(alone["test"])
    for ranks in (2, 3, 4):
        found = outcomes[ranks][0].pop("losses")
        np.testing.assert_allclose(found, losses, rtol=LAST_BIT if is_exact else TOLERANCE)
        for figures in outcomes[ranks]:
            assert flat(figures).keys() == flat(alone).keys()
            found, wanted = (np.array(list(flat(each).values())) for each in (figures, alone))
            # two close scores that swap places move AP by a step
            np.testing.assert_allclose(found, wanted, rtol=0, atol=0 if is_exact else FIGURE_TOLERANCE)


def open_own(world: World, configs: list[Config]) -> str:
    try:
        open_data(configs[world.rank], world)
    except InputError as error:
        return str(error)
    return "the same"


@pytest.mark.parametrize("changed", ["edge_features", "node_features"])
def test_ranks_whose_data_differ_in_a_feature_alone_refuse_to_start(
    rank_pools: RankPools, tmp_path: Path, changed: str
) -> None:
    log = random_log(tmp_path / "events", 100, 20).read(0, 100)
    configs = []
    for name, value in (("one", 0.5), ("other", 0.25)):
        features = {
            "edge_features": np.ones((100, 2), np.float32),
            "node_features": np.ones((20, 2), np.float32),
        }
        features[changed][7, 1] = value
        write_log(tmp_path / name, log.src, log.dst, log.time, num_nodes=20, **features)
        configs.append(small_config(tmp_path / name))
    assert rank_pools[2].run(open_own, [configs[0], configs[0]]) == ["the same"] * 2
    refusals = rank_pools[2].run(open_own, configs)
    for sentence in refusals:
        assert re.fullmatch(
            rf"rank 1 has sha256 of {changed}\.npy = '\w{{64}}' where rank 0 has '\w{{64}}'; "
            "start all ranks with the same data folder and settings",
            sentence,
        )


@pytest.fixture(scope="module")
def on_two_ranks(
    rank_pools: RankPools, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """One epoch with the settings as they are."""
    run = tmp_path_factory.mktemp("two-ranks") / "run"
    return rank_pools[2].run(train_on, small_config(folder, training=ONE_EPOCH), run)


def test_training_twice_gives_the_same_bits(
    rank_pools: RankPools, folder: Path, tmp_path: Path, on_two_ranks: list[dict[str, Any]]
) -> None:
    config = small_config(folder, training=ONE_EPOCH)
    assert rank_pools[2].run(train_on, config, tmp_path / "again") == on_two_ranks


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_prefetch_changes_no_bit(
    rank_pools: RankPools, folder: Path, tmp_path: Path, on_two_ranks: list[dict[str, Any]], depth: int
) -> None:
    config = small_config(folder, training=ONE_EPOCH, memory={"prefetch": depth})
    assert rank_pools[2].run(train_on, config, tmp_path / "run") == on_two_ranks


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_how_rows_are_exchanged_changes_no_bit(
    rank_pools: RankPools, folder: Path, tmp_path: Path, num_ranks: int
) -> None:
    config = small_config(folder, training=ONE_EPOCH)
    require_the_same_bits_however_rows_are_exchanged(rank_pools, config, tmp_path, num_ranks)


def test_how_rows_are_exchanged_changes_no_bit_of_groups(rank_pools: RankPools, tmp_path: Path) -> None:
    config = config_of_groups(tmp_path / "log")
    require_the_same_bits_however_rows_are_exchanged(rank_pools, config, tmp_path, 2)


def require_the_same_bits_however_rows_are_exchanged(
    rank_pools: RankPools, config: Config, tmp_path: Path, num_ranks: int
) -> None:
    """By default; few rows kept, or none; runs of one, three and 32 batches; catching up either way."""
    first, *others = (
        rank_pools[num_ranks].run(
            train_on, replace(config, memory=replace(config.memory, **settings)), tmp_path / str(number)
        )
        for number, settings in enumerate(
            (
                {},
                {"borrowed_rows": 0, "catch_up": "columns"},
                {"borrowed_rows": 3, "run_batches": 3, "catch_up": "nodes"},
                {"run_batches": 1},
                {"run_batches": 32},
            )
        )
    )
    assert all(other == first for other in others)


def train_seeds_and_evaluate(world: PoolWorld, config: Config, run: Path) -> tuple[int, int]:
    """How many process groups training took, and how many both."""
    with redirect_stdout(StringIO()):
        train(config, run, world)
    of_training = len(world.in_use)
    evaluate(RunFolder(run), config, world)
    return of_training, len(world.in_use)


def exchanged(run: Path, seed: int) -> list[dict[str, float]]:
    lines = map(json.loads, (run / METRICS_NAME).read_text().splitlines())
    return [line["exchange"] for line in lines if line["kind"] == "eval" and line["seed"] == seed]


def test_seeds_share_a_process_group_and_none_counts_the_bytes_of_another(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    took = {}
    for seeds in ((3,), (0, 3)):
        config = small_config(folder, training={"epochs": 1, "seeds": seeds})
        took[seeds] = rank_pools[2].run(train_seeds_and_evaluate, config, tmp_path / str(len(seeds)))
    # look-ups have one, rows have one
    assert took == {(3,): [(2, 4)] * 2, (0, 3): [(2, 4)] * 2}
    alone = exchanged(tmp_path / "1", seed=3)
    assert alone[0]["bytes_per_event"] > 0
    assert exchanged(tmp_path / "2", seed=3) == alone


def account_of_second(world: World, config: Config) -> tuple[int, int]:
    """Bytes the first of two seeds sent to record all events, and what the second starts with."""
    data = open_data(config, world)
    first = RunModel.build(config, data.log, world, 0, data.row_exchange)
    assert first.memory is not None
    replay(first.memory, data.log, data.split.train, data.train_plan)
    sent = first.stats.bytes_sent
    return sent, RunModel.build(config, data.log, world, 3, data.row_exchange).stats.bytes_sent


def test_the_account_of_a_seed_begins_at_nothing(rank_pools: RankPools, folder: Path) -> None:
    for first, second in rank_pools[2].run(account_of_second, small_config(folder)):
        assert first > 0 == second
