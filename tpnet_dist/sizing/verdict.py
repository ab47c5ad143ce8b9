"""Whether a log fits, what would make it fit, and the largest that does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.registry import needs_of
from tpnet_dist.neighbors.build import MAX_EVENTS
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.memory_sizes import memory_width
from tpnet_dist.sizing.rank_bytes import RankBytes, rank_bytes
from tpnet_dist.sizing.rank_memory import Place
from tpnet_dist.sizing.sequence_length import longest_that_fits, sequence_length_of

_MOST_RANKS = 4096


@dataclass(frozen=True)
class PlaceBytes:
    """The bytes that are needed and those that there are, on a device or on a host with all its ranks."""

    place: Place
    needed: int
    there: int

    @property
    def is_enough(self) -> bool:
        return self.needed <= self.there


def bytes_by_place(sizes: RankBytes, device: Device, num_ranks: int) -> list[PlaceBytes]:
    sharers, features = min(num_ranks, device.ranks_per_host), sizes.features
    on_host = sizes.total if device.is_host else sizes.on("host", device)
    # ranks of a host share one memory, and map the same files
    host = PlaceBytes("host", (on_host - features) * sharers + features, device.host_memory_bytes)
    if device.is_host:
        return [host]
    return [PlaceBytes("device", sizes.on("device", device), device.memory_bytes), host]


def fits(config: Config, log: LogShape, num_ranks: int, device: Device) -> bool:
    if len(log) > MAX_EVENTS:
        return False
    sizes = rank_bytes(config, log, num_ranks, device)
    return all(place.is_enough for place in bytes_by_place(sizes, device, num_ranks))


def remedies(config: Config, log: LogShape, num_ranks: int, device: Device) -> Iterator[str]:
    """Yield single changes after which the log fits, the least harmful first."""
    ranks = num_ranks
    while ranks <= _MOST_RANKS and not fits(config, log, ranks, device):
        ranks *= 2
    if ranks <= _MOST_RANKS:
        hosts = -(-ranks // device.ranks_per_host)
        yield f"{ranks} ranks{f' on {hosts} hosts' * (hosts > 1)}"
    if num_ranks > 1 and needs_of(config).rows:
        changed = replace(config, memory=replace(config.memory, borrowed_rows=0))
        if fits(changed, log, num_ranks, device):
            yield "--memory.borrowed-rows 0 (no rows of others are kept; more traffic)"
    if not device.is_host and config.memory.rows_on == "device" and needs_of(config).rows:
        changed = replace(config, memory=replace(config.memory, rows_on="host"))
        if fits(changed, log, num_ranks, device):
            yield "--memory.rows-on host (rows in RAM of the host; slower)"
    width = memory_width(config.memory, log)
    for smaller in sorted({max(1, width * share // 8) for share in (6, 4, 2, 1)}, reverse=True):
        changed = replace(config, memory=replace(config.memory, width=smaller))
        if fits(changed, log, num_ranks, device):
            yield f"--memory.width {smaller} instead of {width} (coarser projections)"
            break
    if config.memory.timescales > 1:
        slowest = config.memory.rates[0]
        changed = replace(config, memory=replace(config.memory, decay=slowest, width=width))
        if fits(changed, log, num_ranks, device):
            yield f"one number as --memory.decay instead of {config.memory.timescales} (one timescale)"
    for hops in range(config.memory.hops - 1, 0, -1):
        changed = replace(config, memory=replace(config.memory, hops=hops, width=width))
        if fits(changed, log, num_ranks, device):
            yield f"--memory.hops {hops} instead of {config.memory.hops} (shorter walks)"
            break
    if sequence := sequence_length_of(config):
        longest = longest_that_fits(config, lambda changed: fits(changed, log, num_ranks, device))
        if longest is not None:
            name, length = sequence
            flag = name.replace("_", "-")
            yield f"--{flag} {longest} instead of {length} (shorter histories)"
    size = config.training.batch_size
    changed = replace(config, training=replace(config.training, batch_size=max(1, size // 4)))
    if fits(changed, log, num_ranks, device):
        yield f"--training.batch-size {max(1, size // 4)} instead of {size} (smaller activations)"


def largest_log(config: Config, like: LogShape, num_ranks: int, device: Device) -> LogShape | None:
    """Return the largest log of the same kind that fits, to three digits; None if none does."""
    low, high = 0.0, 1.0
    while fits(config, like.scaled(high), num_ranks, device):
        low, high = high, 2 * high
    while high - low > 5e-4 * high:
        middle = (low + high) / 2
        if fits(config, like.scaled(middle), num_ranks, device):
            low = middle
        else:
            high = middle
        if high * len(like) < 1:
            return None
    return like.scaled(low) if low else None
