"""What tests of several folders share."""

import gc
import importlib
from collections.abc import Iterator

import pytest
import torch

from benchmarks.rank_pool import RankPools
from tests.support.launched_ranks import prepare_server
from tests.support.sentences import forget_all_but, sentences_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-sentences", action="store_true", help="keep what users are told now in tests/sentences.txt"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before some are deselected: sentences of tests that are gone go with them."""
    if config.getoption("--write-sentences") and not any("::" in arg for arg in config.args):
        tests = {item.nodeid for item in items}
        forget_all_but(tests, {test.split("::")[0] for test in tests})


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays: no collection of garbage needs to look through it."""
    if hasattr(session.config, "workerinput"):
        # a worker will train sooner or later
        importlib.import_module("tests.support.preloaded")
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def sentences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What users are told is as in `tests/sentences.txt`."""
    writes, failed = request.config.getoption("--write-sentences"), request.session.testsfailed
    with sentences_of(request.node.nodeid, tmp_path_factory.getbasetemp(), writes=writes) as said:
        yield
    if request.session.testsfailed == failed:
        said.require_all()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors of tests are small: a second thread brings nothing, and waits on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def process_server() -> None:
    """Ranks and commands start from one server for each worker."""
    prepare_server()


@pytest.fixture(scope="session")
def rank_pools() -> Iterator[RankPools]:
    """`rank_pools[4].run(function, …)` runs it on four gloo ranks, which later tests use again."""
    pools = RankPools()
    yield pools
    pools.close()
