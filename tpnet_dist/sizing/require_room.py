"""Whether ranks have room for what they must hold, and the refusal where they have not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpnet_dist.distributed.host_memory import free_bytes
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.sizing.memory_sizes import computes_on_host, sharers_of


@dataclass(frozen=True)
class Part:
    """What a rank must hold of one thing, where it computes."""

    name: str
    num_bytes: int
    causes: str = ""
    """Settings that make it smaller, if any do."""


def require_room(width: int, parts: Sequence[Part], world: World, *, command: str = "") -> None:
    """For all ranks that share a memory. The row cache is no part: it takes what is left, or nothing.

    `command`: how more ranks are used, where it is not said anyway.
    """
    free, sharers = free_bytes(world.device), sharers_of(world)
    if sum(part.num_bytes for part in parts) * sharers <= free:
        return
    *sizes, last = (f"{part.name} {part.num_bytes * sharers / 1e9:,.1f} GB" for part in parts)
    causes, on_host = max(parts, key=lambda part: part.num_bytes).causes, computes_on_host(world)
    # ranks of a host share what it has: there, more of them do not help
    more_ranks = f"use more ranks{', on more hosts' * on_host}{f': {command}' if command else ''}"
    raise InputError(
        f"memory.width {width}: {', '.join(sizes)} and {last} on this {'host' if on_host else 'GPU'}, but "
        f"{free / 1e9:,.1f} GB are free; {f'lower {causes}, or ' if causes else ''}{more_ranks}"
    )
