"""The memory a rank computes in: how much is free, who shares it, and the refusal of what does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from tpnet_dist.distributed.host_memory import free_bytes
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError

Place = Literal["device", "host"]


@dataclass(frozen=True)
class Part:
    """The bytes of one thing that a rank must hold where it computes."""

    name: str
    num_bytes: int
    causes: str = ""
    """Settings that make it smaller, if any do."""
    elsewhere: str = ""
    """The setting by which it lies elsewhere, if one does."""


@dataclass(frozen=True)
class RankMemory:
    """The memory of a GPU, or of a host and all its ranks."""

    free: int
    """The bytes that are free before any rank holds a part of the run."""
    sharers: int
    """The number of ranks that use it: those of a host share it; a GPU is a rank's own."""
    is_host: bool
    """Whether it is a host's: then neighbours and clocks, which are there in any case, lie beside rows and
    weights."""

    @classmethod
    def of(cls, world: World, place: Place = "device") -> "RankMemory":
        """Return the memory as it is now, of the device or of its host."""
        device = torch.device("cpu") if place == "host" else world.device
        is_host = device.type != "cuda"
        return cls(free_bytes(device), world.ranks_per_node if is_host else 1, is_host)

    @property
    def free_per_rank(self) -> int:
        return self.free // self.sharers

    def require_fits(self, parts: Sequence[Part], setting: str, *, command: str = "") -> None:
        """Refuse what does not fit for all ranks that share it. Borrowed rows are no part: they take what is
        left, or nothing.

        `setting`: what is named first; `command`: how more ranks are used, where it is not said anyway.
        """
        if sum(part.num_bytes for part in parts) * self.sharers <= self.free:
            return
        *sizes, last = (f"{part.name} {part.num_bytes * self.sharers / 1e9:,.1f} GB" for part in parts)
        largest = max(parts, key=lambda part: part.num_bytes)
        ways = [f"lower {largest.causes}"] if largest.causes else []
        ways += [largest.elsewhere] if largest.elsewhere else []
        where = "host" if self.is_host else "GPU"
        # ranks of a host share what it has: there, more of them do not help
        ways.append(f"use more ranks{', on more hosts' * self.is_host}{f': {command}' if command else ''}")
        raise InputError(
            f"{setting}: {', '.join(sizes)} and {last} on this {where}, but "
            f"{self.free / 1e9:,.1f} GB are free; {', or '.join(ways)}"
        )
