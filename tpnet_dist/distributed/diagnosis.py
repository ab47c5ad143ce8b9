"""Who is to blame when ranks lose one another, who says so, and in which words. Pure: signs in, words out."""

from collections.abc import Sequence

from tpnet_dist.distributed.heartbeat import DONE, LOST, Sign

SILENT_AFTER = 4.0
"""Seconds without a sign, of which there is one each second."""


def failed_ranks(signs: Sequence[Sign]) -> list[Sign]:
    """Those that said how they failed; else those that fell silent, the longest ones."""
    failed = [sign for sign in signs if sign.ending not in ("", DONE, LOST)]
    silent = [sign for sign in signs if not sign.ending and sign.silence > SILENT_AFTER]
    longest = max((sign.silence for sign in silent), default=0.0)
    return failed or [sign for sign in silent if sign.silence > longest - SILENT_AFTER / 2]


def stuck_ranks(signs: Sequence[Sign]) -> list[Sign]:
    """Those that give signs of life, but do not notice what all others have noticed."""
    return [sign for sign in signs if not sign.ending and sign.silence <= SILENT_AFTER]


def speaker(signs: Sequence[Sign], blamed: Sequence[Sign]) -> int:
    """The lowest rank that lives and is not to blame: one message is enough."""
    innocent = [
        sign.rank
        for sign in signs
        if sign not in blamed and (sign.ending == LOST or (not sign.ending and sign.silence <= SILENT_AFTER))
    ]
    return min(innocent, default=-1)


def failure_sentence(blamed: Sequence[Sign], *, timed_out: bool, reason: str) -> str:
    """`rank 1 (host b) died during training, epoch 2, step 345`.

    `reason`: what the speaker noticed; told where it is all there is to know, since nobody failed or died.
    """
    first = blamed[0]
    who = ", ".join(f"rank {sign.rank} (host {sign.host})" for sign in blamed)
    if first.ending:
        return f"{who} failed during {first.phase}: {first.ending}"
    if first.silence <= SILENT_AFTER:
        return f"{who} got stuck during {first.phase}; what others noticed: {reason}"
    if timed_out:
        return f"{who} has not answered for {first.silence:.0f} s, since {first.phase}"
    return f"{who} died during {first.phase}"
