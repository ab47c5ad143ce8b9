"""What recording is measured with: runs of random events, and the time it takes whoever records them."""

from itertools import islice, pairwise

from benchmarks.propagation_against import worktree_of
from benchmarks.propagation_ranks import TimedRuns
from benchmarks.recorder import DECAY, HOPS, random_runs, record_for
from tests.support.sentences import refused
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk

NODES, BATCH, BATCHES = 10, 4, 3


def test_runs_follow_one_another_and_are_the_same_for_everybody() -> None:
    mine, yours = (list(islice(random_runs(NODES, BATCH, BATCHES), 3)) for _ in range(2))
    assert [run.num_events for run in mine] == [BATCHES * BATCH] * 3
    assert all(earlier.time_E[-1] < later.time_E[0] for earlier, later in pairwise(mine))
    assert all((one.node_E == other.node_E).all() for one, other in zip(mine, yours, strict=True))


def test_at_least_one_run_is_recorded_and_its_events_counted() -> None:
    memory = Memory(NODES, Walk("decay", HOPS, DECAY), 6)
    took = record_for(memory, random_runs(NODES, BATCH, BATCHES), 0.0)
    assert took["events"] == BATCHES * BATCH
    assert memory.exchange.stats.ends_replayed == 2 * BATCHES * BATCH
    assert took["seconds"] > 0


def test_runs_are_timed_from_the_first_to_the_last() -> None:
    runs = TimedRuns(list(islice(random_runs(NODES, BATCH, BATCHES), 2)))
    assert [run.num_batches for run in runs] == [BATCHES] * 2
    assert runs.seconds > 0


def test_a_commit_that_does_not_exist_is_refused() -> None:
    with refused(), worktree_of("nosuch"):
        pass
