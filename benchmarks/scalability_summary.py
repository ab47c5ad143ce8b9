"""One case of the scalability study: what each of its ranks took, put together."""

from typing import Any

import numpy as np

from benchmarks.measuring import Quantiles
from tpnet_dist.config.schema import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.sizing.memory_sizes import FLOAT_BYTES, memory_width

PHASES = ("neighbours", "rows", "propagation", "training", "scoring")
Line = dict[str, Any]


def summarise(log: EventLog, ranks: list[dict[str, Any]]) -> Line:
    """Summarise one case; a phase is over when the last rank is."""
    config = Config()
    width, layers = memory_width(config.memory, log), config.memory.hops + 1
    seconds = {phase: max(rank["seconds"][phase] for rank in ranks) for phase in PHASES}
    batch_size = config.training.batch_size
    recorded = batch_size * ranks[0]["exchanged"]["propagation"]["batches"]
    per_event = seconds["propagation"] / recorded
    return {
        "nodes": log.num_nodes,
        "width": width,
        "device_type": ranks[0]["device"],
        "seconds": seconds,
        "recorded_events": recorded,
        "events_per_second": 1 / per_event,
        "ns_per_event_and_float": 1e9 * per_event / width,
        "training": _steps([rank["training_steps"] for rank in ranks], batch_size),
        "scoring": _steps([rank["scoring_steps"] for rank in ranks], batch_size),
        "peak_bytes": max(rank["peak_bytes"]["scoring"] for rank in ranks),
        "peak_bytes_of_all": sum(rank["peak_bytes"]["scoring"] for rank in ranks),
        "peak_bytes_by_phase": {
            name: max(rank["peak_bytes"][name] for rank in ranks) for name in ("start", *PHASES)
        },
        "device_peak_bytes": max(rank["device_peak_bytes"] for rank in ranks),
        "rows_bytes": max(rank["rows_bytes"] for rank in ranks),
        **_resident(ranks, log.num_nodes, layers * width * FLOAT_BYTES),
        "layout": ranks[0]["layout"],
        "borrowed_rows": max(rank["borrowed_rows"] for rank in ranks),
        "borrowed_rows_held": max(rank["borrowed_rows_held"] for rank in ranks),
        "neighbor_bytes": max(rank["neighbor_bytes"] for rank in ranks),
        "exchanged": {phase: _exchanged(ranks, phase, batch_size) for phase in PHASES[2:]},
    }


def _resident(ranks: list[dict[str, Any]], num_nodes: int, row_bytes: int) -> Line:
    """Return what all ranks together grew by from before there were rows until every event was recorded."""
    drawn, grown = (
        sum(rank["resident_bytes"][phase] - rank["resident_bytes"]["neighbours"] for rank in ranks)
        for phase in ("rows", "propagation")
    )
    return {
        "rows_resident_bytes": grown,
        "rows_resident_bytes_when_drawn": drawn,
        "rows_resident_per_node": grown / num_nodes,
        "rows_resident_of_ideal": grown / num_nodes / row_bytes,
    }


def _steps(seconds_of_ranks: list[list[float]], batch_size: int) -> dict[str, float]:
    seconds = np.max(seconds_of_ranks, axis=0)
    quantiles = Quantiles.of(seconds)
    rate = batch_size * len(seconds) / float(seconds.sum())
    return {"p50_ms": 1e3 * quantiles.p50, "p90_ms": 1e3 * quantiles.p90, "events_per_second": rate}


def _exchanged(ranks: list[dict[str, Any]], phase: str, batch_size: int) -> dict[str, float]:
    of_ranks = [rank["exchanged"][phase] for rank in ranks]
    batches = of_ranks[0]["batches"]
    sent = [one["bytes_sent"] for one in of_ranks]
    return {
        "bytes_sent": sum(sent),
        "bytes_per_event": sum(sent) / (batch_size * batches),
        "collectives_per_batch": of_ranks[0]["collectives"] / batches,
        "batches_per_run": batches / max(1, of_ranks[0]["runs"]),
    }
