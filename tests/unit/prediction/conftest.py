"""A shop whose users and items have ids of their own, an untrained run on it, and its predictor."""

from pathlib import Path

import pytest

from tests.support.predictors import shop_log, untrained_run
from tests.support.training_runs import small_config
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("shop") / "log"
    shop_log(folder)
    return small_config(folder, memory={"decay": 1e-2}, evaluation={"batch_size": 20})


@pytest.fixture(scope="module")
def run(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_run(config, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def predictor(run: Path) -> Predictor:
    return Predictor.load(run)
