"""Who is to blame when ranks lose one another, who says so, and how. Pure: statuses in, a sentence out."""

from collections.abc import Sequence

from tpnet_dist.distributed.heartbeat import DONE, LOST, RankStatus

SILENT_AFTER = 4.0
"""Seconds without a beat, of which there is one each second."""


def failed_ranks(statuses: Sequence[RankStatus]) -> list[RankStatus]:
    """Return the ranks that said how they failed; if none did, those that have been silent for longest."""
    failed = [status for status in statuses if status.ending not in ("", DONE, LOST)]
    silent = [status for status in statuses if not status.ending and status.silence > SILENT_AFTER]
    longest = max((status.silence for status in silent), default=0.0)
    return failed or [status for status in silent if status.silence > longest - SILENT_AFTER / 2]


def stuck_ranks(statuses: Sequence[RankStatus]) -> list[RankStatus]:
    """Return the ranks that still beat, but do not notice what all others have noticed."""
    return [status for status in statuses if not status.ending and status.silence <= SILENT_AFTER]


def reporting_rank(statuses: Sequence[RankStatus], blamed: Sequence[RankStatus]) -> int:
    """Return the lowest rank that lives and is not to blame: it alone prints the message."""
    innocent = [
        status.rank
        for status in statuses
        if status not in blamed
        and (status.ending == LOST or (not status.ending and status.silence <= SILENT_AFTER))
    ]
    return min(innocent, default=-1)


def failure_sentence(blamed: Sequence[RankStatus], *, timed_out: bool, reason: str) -> str:
    """Return a sentence such as `rank 1 (host b) died during training, epoch 2, step 345`.

    `reason`: what the reporting rank noticed. It is all there is to say where nobody failed or died.
    """
    first = blamed[0]
    who = ", ".join(f"rank {status.rank} (host {status.host})" for status in blamed)
    if first.ending:
        return f"{who} failed during {first.phase}: {first.ending}"
    if first.silence <= SILENT_AFTER:
        return f"{who} got stuck during {first.phase}; what others noticed: {reason}"
    if timed_out:
        return f"{who} has not answered for {first.silence:.0f} s, since {first.phase}"
    return f"{who} died during {first.phase}"
