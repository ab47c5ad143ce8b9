"""How long a training step takes: counts of the work over what a device can do, and which limit is met first.

On a GPU kernels, the host's planning, and rows on their way go on side by side, so the slowest decides. On a
host without one they share a core, so they add up.

Rows go from every rank to every other; across hosts the ranks of one share its network. Gradients go around a
ring, host after host, so that one stream leaves a host and one enters it, at the network's full rate. Both
take the latency of a tree: that of two ranks for each doubling of the ranks.
"""

from dataclasses import dataclass, fields, replace

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.memory.run_length import MOST_BATCHES
from tpnet_dist.models.registry import needs_of
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.exchange_count import RowTraffic
from tpnet_dist.sizing.memory_sizes import FLOAT_BYTES, row_bytes_of, slots_of
from tpnet_dist.sizing.model_cost import Cost, scoring_cost, training_cost, weight_count

_PASSES_OF_ADAM = 12
"""Passes over the weights: gradient, weight and two moments, read and written, and what lies between."""
_PASSES_OVER_ROWS = 6
"""Lent, sent, received, kept, read by the model, written back."""
OPERATIONS_BESIDE_MODEL = 72
"""Kernels of a batch on a GPU beside the model's: rows read and recorded, factors, gradients, Adam. With the
model's they come to what the emulated device counts of a step (`tests/cuda/test_step_counts.py`)."""
HOST_BYTES_PER_SECOND = 1e10
"""Assumed: at which a thread of a host records, gathers, packs and sends rows that lie there."""
_COLLECTIVES_PER_BATCH = (3 + 3) / MOST_BATCHES
"""Counts, ids and rows of a run of batches; three for a look-up of neighbours."""


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step on one rank."""

    products: float
    """Seconds of matrix products."""
    memory: float
    """All other operations of the model and the optimizer, and rows passing by."""
    calls: float
    """Starting operations, one after another; on a GPU with what planning keeps the interpreter from it."""
    host: float
    """Seconds of looking up neighbours and planning exchanges."""
    link: float
    """Seconds of rows and gradients on their way between ranks."""
    is_host: bool

    @property
    def seconds(self) -> float:
        if self.is_host:
            return self.products + self.memory + self.calls + self.host + self.link
        return max(self.products + self.memory, self.calls, self.host, self.link)

    def times(self, count: int) -> "StepTime":
        """Return the time of so many steps."""
        parts = {name: count * getattr(self, name) for name in _PARTS}
        return StepTime(**parts, is_host=self.is_host)

    @property
    def bottleneck(self) -> str:
        """The part that takes longest; for a GPU, the longest of those that go on side by side."""
        parts = {name: getattr(self, name) for name in _PARTS}
        if not self.is_host:
            kernels = {name: parts.pop(name) for name in ("products", "memory")}
            parts[max(kernels, key=lambda name: kernels[name])] = sum(kernels.values())
        return max(parts, key=lambda name: parts[name])


_PARTS = tuple(field.name for field in fields(StepTime) if field.name != "is_host")


def training_step_time(
    config: Config, log: LogShape, num_ranks: int, device: Device, traffic: RowTraffic
) -> StepTime:
    """Return the time of `batches_per_step` batches; `traffic`: of one rank, mean of its batches if there are
    several."""
    batches = config.training.batches_per_step
    events = _most_events(config, config.training.batch_size, num_ranks, device)
    weight_bytes = weight_count(config, log) * FLOAT_BYTES
    one_batch = _time(
        config,
        log,
        num_ranks,
        device,
        events,
        _on(device, training_cost(config, log, events, on_gpu=not device.is_host)),
        more_bytes=_PASSES_OF_ADAM * weight_bytes / batches,
        sent=traffic.bytes_per_batch,
    )
    # gradients are summed and learned from once in a step
    step = one_batch.times(batches)
    return replace(step, link=step.link + _gradient_seconds(weight_bytes, num_ranks, device))


def _gradient_seconds(weight_bytes: int, num_ranks: int, device: Device) -> float:
    """Return the seconds for gradients: each rank passes all but its own part on twice, to be summed, and as
    a sum."""
    sent = 2 * weight_bytes * (num_ranks - 1) / num_ranks
    return sent / device.ring_bytes_per_second(num_ranks) + device.seconds_to_meet(num_ranks)


def scoring_step_time(
    config: Config, log: LogShape, num_ranks: int, device: Device, traffic: RowTraffic
) -> StepTime:
    events = _most_events(config, config.evaluation.batch_size, num_ranks, device)
    cost = _on(device, scoring_cost(config, log, events, on_gpu=not device.is_host))
    sent = traffic.bytes_per_batch
    return _time(config, log, num_ranks, device, events, cost, more_bytes=0.0, sent=sent)


def _on(device: Device, cost: Cost) -> Cost:
    """Return the cost of the model on a device; on a GPU with the operations around the model."""
    return cost if device.is_host else replace(cost, operations=cost.operations + OPERATIONS_BESIDE_MODEL)


def _most_events(config: Config, batch_size: int, num_ranks: int, device: Device) -> int:
    """Return the events of a batch on the rank that the others wait for."""
    return BatchSlices.of(config.training.microbatches, 0, num_ranks, device.type).largest_slice(batch_size)


def _time(
    config: Config,
    log: LogShape,
    num_ranks: int,
    device: Device,
    events: int,
    cost: Cost,
    *,
    more_bytes: float,
    sent: float,
) -> StepTime:
    """Return the time of a batch of which this rank has so many events."""
    slots = slots_of(config, events)
    held = row_bytes_of(config, log) if needs_of(config).rows else 0
    rows = _PASSES_OVER_ROWS * min(slots, log.num_nodes) * held
    special = cost.special / device.special_functions_per_second if device.special_functions_per_second else 0
    collectives = _COLLECTIVES_PER_BATCH * device.seconds_to_meet(num_ranks)
    host = slots * device.host_seconds_per_slot
    if config.memory.rows_on == "host" and not device.is_host:
        host += rows / HOST_BYTES_PER_SECOND
    calls = cost.operations * device.seconds_per_operation
    return StepTime(
        products=cost.flops / device.rate(config.training.precision),
        memory=(cost.bytes + more_bytes + rows) / device.bytes_per_second() + special,
        calls=calls if device.is_host else calls + device.interpreter_share * host,
        host=host,
        link=sent / device.link_bytes_per_second(num_ranks) + collectives if num_ranks > 1 else 0.0,
        is_host=device.is_host,
    )
