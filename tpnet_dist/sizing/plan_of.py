"""A whole plan: bytes, verdict, exchange, seconds, and how all of it changes with the number of ranks."""

import math
from dataclasses import dataclass, replace
from typing import Any

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.models.registry import needs_of
from tpnet_dist.neighbors.build import MAX_EVENTS
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.exchange_count import RowTraffic, expected_traffic
from tpnet_dist.sizing.memory_sizes import memory_width
from tpnet_dist.sizing.rank_bytes import RankBytes, rank_bytes, train_share_of
from tpnet_dist.sizing.step_time import StepTime, training_step_time
from tpnet_dist.sizing.verdict import PlaceBytes, bytes_by_place, fits, largest_log, remedies

CURVE = tuple(2**power for power in range(11))
"""Numbers of ranks of the scaling curve: 1 … 1024."""


@dataclass(frozen=True)
class CurvePoint:
    """One number of ranks."""

    ranks: int
    batch_size: int
    """The batch size that was asked for, or one event for each rank."""
    events_per_second: float
    bottleneck: str
    device_bytes: int
    fits: bool


@dataclass(frozen=True)
class Plan:
    """The plan of one log on so many ranks of one device."""

    log: LogShape
    ranks: int
    device: Device
    width: int
    batch_size: int
    """The batch size that was asked for, or one event for each rank."""
    is_batch_raised: bool
    sizes: RankBytes
    places: list[PlaceBytes]
    remedies: list[str]
    largest: LogShape | None
    traffic: RowTraffic
    """The traffic of one rank."""
    is_counted: bool
    """Whether traffic was counted from a real log; else it is expected for a random one."""
    exchanged_bytes: int
    """Bytes between all ranks, for the rows of one batch."""
    step: StepTime
    train_share: float
    """The share of the events that an epoch learns from."""
    steps_per_epoch: int
    epoch_seconds: float
    curve: list[CurvePoint]

    @property
    def fits(self) -> bool:
        return all(place.is_enough for place in self.places)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object, for programs."""
        return {
            "events": len(self.log),
            "nodes": self.log.num_nodes,
            "ranks": self.ranks,
            "device": self.device.title,
            "width": self.width,
            "batch_size": self.batch_size,
            "bytes_per_rank": dict(self.sizes.parts()) | {"total": self.sizes.total},
            "borrowed_rows_per_rank": self.sizes.borrowed_rows,
            "places": [vars(place) | {"is_enough": place.is_enough} for place in self.places],
            "fits": self.fits,
            "remedies": self.remedies,
            "largest_events": len(self.largest) if self.largest else 0,
            "exchanged_bytes_per_batch": self.exchanged_bytes,
            "exchange_is_counted": self.is_counted,
            "step_seconds": self.step.seconds,
            "step_parts": {name: value for name, value in vars(self.step).items() if name != "is_host"},
            "bottleneck": self.step.bottleneck,
            "steps_per_epoch": self.steps_per_epoch,
            "epoch_seconds": self.epoch_seconds,
            "curve": [vars(point) for point in self.curve],
        }


def make_plan(
    config: Config, log: LogShape, num_ranks: int, device: Device, counted: RowTraffic | None = None
) -> Plan:
    """Plan a training. `counted`: the mean rank's traffic, where there is a log to count it from."""
    if len(log) > MAX_EVENTS:
        raise InputError(
            f"the log has {len(log):,} events, but the neighbour index of a run holds up to {MAX_EVENTS:,}; "
            "plan a part of it"
        )
    asked, config = config, with_an_event_each(config, num_ranks)
    traffic = counted or expected_traffic(config, log, num_ranks)
    sizes = rank_bytes(config, log, num_ranks, device)
    places = bytes_by_place(sizes, device, num_ranks)
    step = training_step_time(config, log, num_ranks, device, traffic)
    is_tight = not all(place.is_enough for place in places)
    train_share = train_share_of(config, log)
    steps = _steps_per_epoch(config, log)
    return Plan(
        log=log,
        ranks=num_ranks,
        device=device,
        width=memory_width(config.memory, log) if needs_of(config).rows else 0,
        batch_size=config.training.batch_size,
        is_batch_raised=config != asked,
        sizes=sizes,
        places=places,
        remedies=list(remedies(config, log, num_ranks, device)) if is_tight else [],
        largest=largest_log(config, log, num_ranks, device),
        traffic=traffic,
        is_counted=counted is not None,
        exchanged_bytes=round(num_ranks * traffic.bytes_per_batch),
        step=step,
        train_share=train_share,
        steps_per_epoch=math.ceil(steps),
        epoch_seconds=step.seconds * steps,
        curve=[_point(asked, log, ranks, device) for ranks in CURVE],
    )


def _steps_per_epoch(config: Config, log: LogShape) -> float:
    """Return the steps of the log's own split; of a log that nobody has split about so many."""
    training = config.training
    if log.train_batches is not None:
        return math.ceil(log.train_batches / training.batches_per_step)
    return train_share_of(config, log) * len(log) / (training.batch_size * training.batches_per_step)


def with_an_event_each(config: Config, num_ranks: int) -> Config:
    """Return settings with an event for each rank: more ranks than a batch has events would leave some
    idle."""
    size = max(config.training.batch_size, num_ranks)
    return replace(config, training=replace(config.training, batch_size=size))


def _point(config: Config, log: LogShape, ranks: int, device: Device) -> CurvePoint:
    config = with_an_event_each(config, ranks)
    size = config.training.batch_size
    traffic = expected_traffic(config, log, ranks)
    step = training_step_time(config, log, ranks, device, traffic)
    return CurvePoint(
        ranks,
        size,
        size * config.training.batches_per_step / step.seconds,
        step.bottleneck,
        rank_bytes(config, log, ranks, device).on("device", device),
        fits(config, log, ranks, device),
    )
