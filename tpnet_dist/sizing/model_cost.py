"""What the model costs: operations and bytes, counted while it runs forward and backward on a few events.

Everything grows with the events of a slice but what concerns the weights alone, so two small slices tell what
any slice costs. Nothing is timed here; a device's figures turn counts into seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.dropout import with_dropout_states
from tpnet_dist.models.common.host_forms import plain_forms
from tpnet_dist.models.common.loss import links_loss, split_logits
from tpnet_dist.models.link_batch import Hop, LinkBatch
from tpnet_dist.models.registry import needs_of, spec_of
from tpnet_dist.sizing.memory_sizes import memory_width

_FEW, _MORE = 4, 12
"""The numbers of events of the two slices."""
_SPECIAL = ("gelu", "log1p", "exp", "cos", "sin", "tanh", "sigmoid", "softplus", "rsqrt")
_GATHERS = ("index", "gather", "embedding")
_NOTHING_STARTED = ("empty", "empty_like", "new_empty", "_unsafe_view", "promote_types")
_ENDS = 3
"""The ends of an event in training: source, destination, negative."""

Act = Callable[[nn.Module, LinkBatch], float]
"""Runs the model; returns the bytes it kept for later."""


@dataclass(frozen=True)
class Cost:
    """The cost of one pass over a slice, on one rank."""

    flops: float = 0.0
    """The number of operations in matrix products."""
    bytes: float = 0.0
    """The bytes that all other operations read and write."""
    special: float = 0.0
    """The number of exponentials, error functions and the like."""
    operations: float = 0.0
    saved_bytes: float = 0.0
    """The bytes that are kept from forward to backward."""
    largest_bytes: float = 0.0
    """Bytes of the largest tensor, beside which its gradient and a copy are made."""

    def grown(self, other: "Cost", times: float) -> "Cost":
        """Return this cost and `times` what the other has more."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Cost(*(mine + times * (theirs - mine) for mine, theirs in pairs))


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts every operation torch does, and what each reads and writes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.bytes = self.special = self.operations = self.largest = 0.0

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        if func.is_view:
            return out
        written, read = list(_tensors(out)), list(_tensors((args, kwargs)))
        moved = sum(tensor.nbytes for tensor in (*written, *read))
        self.operations += func._overloadpacket.__name__ not in _NOTHING_STARTED
        self.largest = max([self.largest, *(tensor.nbytes for tensor in written)])
        count_flops = flop_registry.get(_not_in_place(func))
        if count_flops is not None:
            self.flops += count_flops(*args, **(kwargs or {}), out_val=out)
        elif _is_one_of(func, _GATHERS):
            # of what is read from, only what is written
            self.bytes += 2 * sum(tensor.nbytes for tensor in written)
        else:
            self.bytes += moved
            if _is_one_of(func, _SPECIAL):
                self.special += sum(tensor.numel() for tensor in written)
        return out


def _not_in_place(func: OpOverload) -> object:
    """Return the operation as torch's register of costs knows it: `addmm` for `addmm_`."""
    name = func._overloadpacket.__name__
    return getattr(torch.ops.aten, name.removesuffix("_"), func._overloadpacket)


def _is_one_of(func: OpOverload, names: tuple[str, ...]) -> bool:
    return any(name in str(func) for name in names)


def _tensors(values: object) -> Iterable[Tensor]:
    return (value for value in tree_flatten(values)[0] if isinstance(value, Tensor))


def training_cost(config: Config, log: LogShape, num_events: int, *, on_gpu: bool = False) -> Cost:
    """Count forward and backward over a slice of so many events. `on_gpu`: in the forms that GPUs take."""
    return _of_slice(config, log, num_events, _learn, on_gpu)


def scoring_cost(config: Config, log: LogShape, num_events: int, *, on_gpu: bool = False) -> Cost:
    return _of_slice(config, log, num_events, _score, on_gpu)


def weight_count(config: Config, log: LogShape) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in _model(config, log).parameters())


def _of_slice(config: Config, log: LogShape, num_events: int, act: Act, on_gpu: bool) -> Cost:
    # a log's size matters only for the width of rows
    memory = replace(config.memory, width=memory_width(config.memory, log))
    asked, shape = replace(config, memory=memory), replace(log, num_events=1, num_nodes=1)
    few, more = (_count(asked, shape, size, act, on_gpu) for size in (_FEW, _MORE))
    return few.grown(more, (num_events - _FEW) / (_MORE - _FEW))


@cache
def _count(config: Config, log: LogShape, num_events: int, act: Act, on_gpu: bool = False) -> Cost:
    model, query = _model(config, log), few_events(config, log, num_events)
    prepare = spec_of(config).prepare
    if on_gpu:
        query = with_dropout_states(query)
    if on_gpu and prepare is not None:
        query = replace(query, prepared=prepare(config, query))
    with plain_forms() if on_gpu else nullcontext():
        if on_gpu:
            # places of masks are made once and kept; gradients are new in every step
            act(model, query)
            model.zero_grad()
        with _Counter() as counter:
            saved = act(model, query)
    return Cost(
        counter.flops,
        counter.bytes,
        counter.special,
        counter.operations,
        saved,
        counter.largest,
    )


def _learn(model: nn.Module, query: LinkBatch) -> float:
    """Learn from a batch; return the bytes that were kept for the backward pass, each storage once."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        positive, negative = split_logits([model(query)])
        loss = links_loss(positive, negative)
    loss.backward()  # type: ignore[no-untyped-call]
    return float(sum(kept.values()))


@torch.no_grad()  # in inference mode operations would be seen whole, not as the products they are made of
def _score(model: nn.Module, query: LinkBatch) -> float:
    model.eval()
    model(query)
    return 0.0


def _model(config: Config, log: LogShape) -> nn.Module:
    return spec_of(config).make(config, log)


def few_events(config: Config, log: LogShape, num_events: int) -> LinkBatch:
    """Return a batch of full neighbour slots of distinct nodes: the most a slice can ask."""
    needs = needs_of(config)
    slots, layers = needs.neighbors, config.memory.layers
    num_ends, num_slots = num_events * _ENDS, num_events * _ENDS * slots
    num_nodes = num_ends + num_slots
    place = torch.arange(num_nodes)
    width = memory_width(config.memory, log)
    rows: dict[str, Any] = {
        "rows_ULD": torch.ones(num_nodes, layers, width),
        "products_ULL": torch.ones(num_nodes, layers, layers),
        "end_factors_BSL": torch.ones(num_events, _ENDS, layers),
        "neighbor_factors_BSML": torch.ones(num_events, _ENDS, slots, layers),
    }
    has_means = needs.feature_neighbors and log.node_width
    edge_shape = (num_events, _ENDS, slots, log.edge_width)
    return LinkBatch(
        ends_BS=place[:num_ends].view(num_events, _ENDS),
        neighbors_BSM=place[num_ends:].view(num_events, _ENDS, slots),
        neighbor_mask_BSM=torch.ones(num_events, _ENDS, slots, dtype=torch.bool),
        elapsed_BSM=torch.ones(num_events, _ENDS, slots),
        node_features_UF=torch.ones(num_nodes, log.node_width) if log.node_width else None,
        edge_features_BSMF=torch.ones(edge_shape) if log.edge_width else None,
        neighbor_means_BSF=torch.ones(num_events, _ENDS, log.node_width) if has_means else None,
        dropout_keys_B=place[:num_events],
        **(rows if needs.rows else {}),
        hop_rows_BSM=place[1 : 1 + num_slots].view(num_events, _ENDS, slots) if needs.hops > 1 else None,
        hops=_further_hops(config, log, num_slots),
    )


def _further_hops(config: Config, log: LogShape, num_slots: int) -> tuple[Hop, ...]:
    """Return further hops in which each slot of a hop is a row of its own in the next."""
    needs = needs_of(config)
    slots, hops = needs.neighbors, list[Hop]()
    for number in range(2, needs.hops + 1):
        rows, shape = 1 + num_slots, (1 + num_slots, slots)
        num_slots = rows * slots
        is_last = number == needs.hops
        hops.append(
            Hop(
                nodes_V=torch.zeros(rows, dtype=torch.int64),
                neighbors_VM=torch.zeros(shape, dtype=torch.int64),
                mask_VM=torch.ones(shape, dtype=torch.bool),
                elapsed_VM=torch.ones(shape, dtype=torch.float64),
                edge_features_VMF=torch.ones(*shape, log.edge_width) if log.edge_width else None,
                rows_VM=None if is_last else torch.arange(1, 1 + num_slots).view(shape),
                dropout_keys_V=torch.arange(rows),
            )
        )
    return tuple(hops)
