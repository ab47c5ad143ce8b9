"""What tests of several folders share."""

from collections.abc import Iterator

import pytest
import torch

from benchmarks.rank_pool import RankPools


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors of tests are small: a second thread brings nothing, and waits on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def rank_pools() -> Iterator[RankPools]:
    """`rank_pools[4].run(function, …)` runs it on four gloo ranks, which later tests use again."""
    pools = RankPools()
    yield pools
    pools.close()
