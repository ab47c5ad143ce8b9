"""How long a study will still take: what grows with a log grows, what does not is counted once."""

from benchmarks.study_time import our_seconds, rival_seconds


def case(edges: int, ranks: int, recording: float, others: float) -> dict[str, object]:
    seconds = {"neighbours": 0.0, "rows": 0.0, "propagation": recording, "training": others / 2}
    return {"edges": edges, "ranks": ranks, "seconds": seconds, "wall_seconds": recording + others}


def test_steps_take_as_long_at_any_size() -> None:
    done = [case(100_000, 1, 0.2, 30.0), case(100_000, 2, 1.0, 40.0)]
    assert our_seconds(10**8, 1, done) == 200 + 30
    assert our_seconds(10**8, 2, done) == 1000 + 40
    assert our_seconds(10**8, 4, done) == 1000 + 40, "by what was measured last"


def test_before_anything_is_measured_nobody_knows() -> None:
    assert our_seconds(10**6, 1, []) is None


def test_a_rival_takes_the_square_until_its_time_is_used_up() -> None:
    finished = [{"edges": 1000, "seconds": 2.0}]
    assert rival_seconds(3000, 300.0, finished) == 18
    assert rival_seconds(100_000, 300.0, finished) == 300
    assert rival_seconds(1000, 300.0, []) == 300
