"""From what was trained to parts that score: ids, memory, past, model; in this process alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tpnet_dist.batches.link_batches import LinkBatchMaker
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.distributed.host_memory import free_bytes
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.model_parts import build_memory, rows_device
from tpnet_dist.events.raw_ids import NUM_UNKNOWN, RawIds
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.projection import fill_projection
from tpnet_dist.models.registry import spec_of
from tpnet_dist.models.spec import preparation
from tpnet_dist.prediction.kept_rows import KeptRows
from tpnet_dist.prediction.link_scorer import LinkScorer
from tpnet_dist.prediction.past import Past
from tpnet_dist.prediction.trained import Trained
from tpnet_dist.sizing.memory_sizes import (
    clock_bytes_of,
    memory_nodes,
    padding_node_of,
    row_bytes_of,
)
from tpnet_dist.training.weights_file import start_from

_NOBODY = 1 << 40


@dataclass(frozen=True)
class Parts:
    """What a predictor is made of."""

    ids: RawIds
    past: Past
    scorer: LinkScorer


def build_parts(
    trained: Trained,
    log: EventLog,
    *,
    until: int,
    as_evaluated: bool,
    capacity: int,
    device: torch.device,
    rows: KeptRows | None = None,
) -> Parts:
    """`capacity`: room for nodes that are not in the log. `rows`: as they were after some events."""
    config = trained.config
    _require_room(config, log, capacity, rows_device(config, device))
    model: nn.Module = spec_of(config).make(config, log.shape).to(device)
    start_from(model, spec_of(config), dict(trained.state), trained.path)
    # the padding node, if there is one, comes before them
    raw_ids = log.raw_ids()
    ids = RawIds(raw_ids, first_new=memory_nodes(config, log), capacity=capacity)
    memory = build_memory(
        config,
        log,
        LocalExchange(),
        device,
        trained.seed,
        borrowed_rows=0,
        further_nodes=capacity + NUM_UNKNOWN,
    )
    if memory is not None:
        memory.reset(trained.epoch)
        _draw_unknown(memory, ids.unknown)
        _take_projection(memory, trained, raw_ids.column("raw_id").to_numpy(), padding_node_of(config, log))
    past = Past(config, log, memory, until=until, as_evaluated=as_evaluated, rows=rows)
    batch_maker = LinkBatchMaker(device, preparation(config, spec_of(config)))
    return Parts(ids, past, LinkScorer(model, past, batch_maker, padding_node_of(config, log)))


def usable_device(given: torch.device | str | None) -> torch.device:
    """Return the device that was asked for; by default a GPU, if there is one."""
    try:
        device = torch.device(given or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InputError(f"device is {given!r}, which torch does not know; give cpu or cuda") from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise InputError(f"device is {device}, but torch finds {count} GPUs; give cpu, or another GPU")
    # threads are set to a GPU by its number, and tensors say the number of theirs
    is_unnumbered = device.type == "cuda" and device.index is None
    return torch.device("cuda", torch.cuda.current_device()) if is_unnumbered else device


def _require_room(config: Config, log: EventLog, capacity: int, device: torch.device) -> None:
    """Refuse rows that do not fit, before any of them is there."""
    settings = config.memory
    if not settings.enabled:
        return
    nodes, each = memory_nodes(config, log), row_bytes_of(config, log) + clock_bytes_of(settings)
    free = free_bytes(device)
    if (nodes + capacity) * each > free:
        remedy = "lower the capacity" if nodes * each <= free else "take a machine with more memory"
        if device.type == "cuda":
            remedy += (
                ", or use the host's memory: device='cpu' in Python, CUDA_VISIBLE_DEVICES= before the command"
            )
        raise InputError(
            f"capacity is {capacity:,}: with the log's {nodes:,} nodes rows of {each:,} bytes take "
            f"{(nodes + capacity) * each:,} bytes, but {free:,} are free on {device}; {remedy}"
        )


def _draw_unknown(memory: Memory, nodes: range) -> None:
    """Draw random features of nodes that no log has; they are the same whatever the capacity."""
    features = torch.empty(len(nodes), memory.width)
    fill_projection(features, kind="normal", first_node=_NOBODY, seed=memory.seed, epoch=memory.epoch)
    memory.table.start_from(features, torch.tensor(nodes))


def _take_projection(memory: Memory, trained: Trained, raw: npt.NDArray[Any], padding: int | None) -> None:
    """The random features of a released checkpoint, if its rows are the raw ids; else those drawn serve."""
    features = trained.projection
    if features is None:
        return
    if features.shape[1] != memory.width:
        raise InputError(
            f"{trained.path}: its random features have {features.shape[1]} columns where memory.width is "
            f"{memory.width}; give a checkpoint as it was written"
        )
    if raw.dtype.kind != "i" or not 1 <= raw.min() <= raw.max() < len(features):
        return
    if len(np.unique(raw)) < len(raw):
        # user 7 and item 7 are two nodes, and the checkpoint has one row 7
        return
    nodes = torch.arange(len(raw))
    memory.table.start_from(features[torch.tensor(raw)], nodes)
    if padding is not None:
        memory.table.start_from(features[:1], torch.tensor([padding]))
