"""How a run was made: data, settings, versions, ranks and memory, as its results tell."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch

from tpnet_dist.batches.run_data import RunData
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.gather import gather_varied
from tpnet_dist.distributed.peak_memory import peak_bytes
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.results import Conditions, DataInfo, EventCounts, RunInfo, Versions, release


def run_info(data: RunData, started: datetime) -> RunInfo:
    """Describe a run that ends now."""
    split, log = data.split, data.log
    events = EventCounts(train=len(split.train), val=len(split.val), test=len(split.test))
    return RunInfo(
        started=started,
        finished=datetime.now(UTC),
        data=DataInfo(
            folder=data.config.data.folder,
            log_id=log.manifest.log_id,
            events=events,
            nodes=log.num_nodes,
            name=Path(data.config.data.folder).resolve().name,
            version=len(log.manifest.history),
        ),
        settings=dict(values_of(data.config)),
        versions=Versions(tpnet_dist=release(), torch=torch.__version__, python=platform.python_version()),
        machine=_machine(data.world.device),
        command=data.world.phase.command,
    )


def _machine(device: torch.device) -> str:
    """Return what computes, as text."""
    said = [platform.platform(terse=True), platform.machine(), f"{os.cpu_count()} cores"]
    if device.type == "cuda":
        said.append(f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(device)}")
    return ", ".join(said)


def conditions_of(config: Config, world: World) -> Conditions:
    """Return the conditions of a run. Every rank must ask, since each tells of its memory."""
    by_rank = peak_memory_by_rank(world.device)
    return Conditions(
        batching=config.data.batching,
        protocol=config.evaluation.protocol,
        update=config.evaluation.update,
        mrr_negatives=config.evaluation.mrr_negatives,
        ranks=world.num_ranks,
        device="cuda" if world.device.type == "cuda" else "cpu",
        peak_memory_bytes=max(by_rank),
        peak_memory_bytes_by_rank=tuple(by_rank),
        peak_reserved_bytes_by_rank=_reserved_by_rank(world.device),
    )


def peak_memory_by_rank(device: torch.device) -> list[int]:
    """Return peak bytes by rank: what torch held on a GPU, else what the process held."""
    mine = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_bytes()
    return _by_rank(mine, device)


def _reserved_by_rank(device: torch.device) -> tuple[int, ...] | None:
    if device.type != "cuda":
        return None
    return tuple(_by_rank(torch.cuda.max_memory_reserved(device), device))


def _by_rank(mine: int, device: torch.device) -> list[int]:
    by_rank: list[int] = torch.cat(gather_varied(torch.tensor([mine], device=device))).tolist()
    return by_rank
