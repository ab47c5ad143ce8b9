"""Who is blamed when ranks lose one another, and who says it: one rank, naming another and its phase."""

from tpnet_dist.distributed.diagnosis import failed_ranks, failure_sentence, reporting_rank, stuck_ranks
from tpnet_dist.distributed.heartbeat import DONE, LOST, RankStatus

PHASE = "training, epoch 2, step 345"


def status(rank: int, ending: str = "", silence: float = 0.3) -> RankStatus:
    return RankStatus(rank, "b", PHASE, ending, silence)


def test_a_rank_that_fell_silent_has_died() -> None:
    statuses = [status(0, LOST), status(1, silence=5), status(2)]
    assert failed_ranks(statuses) == [statuses[1]]
    assert (
        failure_sentence([statuses[1]], timed_out=False, reason="closed")
        == f"rank 1 (host b) died during {PHASE}"
    )
    assert reporting_rank(statuses, [statuses[1]]) == 0


def test_a_rank_that_was_silent_for_the_timeout_is_said_not_to_answer() -> None:
    assert failure_sentence([status(3, silence=61)], timed_out=True, reason="timed out") == (
        f"rank 3 (host b) has not answered for 61 s; it was last heard of during {PHASE}"
    )


def test_the_first_to_fall_silent_is_blamed_not_one_that_is_slow() -> None:
    statuses = [status(0, silence=4.5), status(1, silence=9), status(2)]
    assert [one.rank for one in failed_ranks(statuses)] == [1]


def test_a_whole_host_is_blamed_together() -> None:
    statuses = [status(0), status(1), status(2, silence=9), status(3, silence=9.4)]
    sentence = failure_sentence(failed_ranks(statuses), timed_out=False, reason="closed")
    assert sentence == f"rank 2 (host b), rank 3 (host b) died during {PHASE}"


def test_a_rank_that_said_why_it_failed_is_blamed_before_silent_ones() -> None:
    statuses = [status(0, silence=9), status(1, "ValueError: no"), status(2, LOST)]
    assert failure_sentence(failed_ranks(statuses), timed_out=False, reason="closed") == (
        f"rank 1 (host b) failed during {PHASE}: ValueError: no"
    )


def test_nobody_is_blamed_while_all_give_signs_or_have_finished() -> None:
    assert failed_ranks([status(0, LOST, silence=30), status(1), status(2, DONE, silence=30)]) == []


def test_a_rank_that_does_not_notice_is_stuck_and_what_the_reporting_rank_noticed_is_said() -> None:
    statuses = [status(0, LOST), status(1, LOST), status(2)]
    assert stuck_ranks(statuses) == [statuses[2]]
    assert failure_sentence(stuck_ranks(statuses), timed_out=True, reason="timed out") == (
        f"rank 2 (host b) got stuck during {PHASE}; what others noticed: timed out"
    )


def test_one_rank_speaks_also_after_it_has_left() -> None:
    statuses = [status(0, silence=9), status(1, LOST, silence=6), status(2, LOST)]
    assert reporting_rank(statuses, [statuses[0]]) == 1
