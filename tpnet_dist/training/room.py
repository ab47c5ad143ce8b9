"""Whether ranks have room for what they must hold, and the refusal where they have not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpnet_dist.errors import InputError
from tpnet_dist.ranks.host_memory import free_bytes
from tpnet_dist.ranks.world import World
from tpnet_dist.training.memory_sizes import computes_on_host, sharers_of


@dataclass(frozen=True)
class Part:
    """What a rank must hold of one thing, where it computes."""

    name: str
    num_bytes: int
    causes: str = ""
    """Settings that make it smaller, if any do."""


def require_room(about: str, parts: Sequence[Part], world: World) -> None:
    """For all ranks that share a memory. The row cache is no part: it takes what is left, or nothing."""
    free, sharers = free_bytes(world.device), sharers_of(world)
    if sum(part.num_bytes for part in parts) * sharers <= free:
        return
    *sizes, last = (f"{part.name} {part.num_bytes * sharers / 1e9:,.1f} GB" for part in parts)
    causes = max(parts, key=lambda part: part.num_bytes).causes
    raise InputError(
        f"{about}: {', '.join(sizes)} and {last} on this {'host' if computes_on_host(world) else 'GPU'}, but "
        f"{free / 1e9:,.1f} GB are free; {f'lower {causes}, or ' if causes else ''}{_more_ranks(world)}"
    )


def _more_ranks(world: World) -> str:
    """Those of a host share what it has: there, more of them do not help."""
    return "use more ranks" + (", on more hosts" if computes_on_host(world) else "")
