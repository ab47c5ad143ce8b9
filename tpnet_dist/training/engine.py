"""Engines, which compute gradients, let them meet over the ranks, and make new weights of them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tpnet_dist.batches.link_batches import Microbatch
from tpnet_dist.distributed.ordered_sum import AllToAllTime, needs_order, ordered_sum_hook
from tpnet_dist.training.microbatch_scorer import MicrobatchScorer

OptimizerState = dict[str, dict[str, Any]]
"""The state that Adam keeps of each weight, by its name: `step`, `exp_avg`, `exp_avg_sq`; whole, the same on
every rank and from every engine."""
Weights = dict[str, Tensor]


def adam_settings(device_type: str) -> dict[str, Any]:
    """Return settings of Adam beside the learning rate; the same in every engine.

    Fused, a host rounds the last few values of a tensor otherwise than the rest, and engines cut weights into
    tensors each in its own way.
    """
    is_host = device_type == "cpu"
    return {
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "foreach": is_host,
        "fused": not is_host,
    }


class Engine(Protocol):
    """The methods by which a training step learns."""

    def batch(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Enclose scoring and learning from one batch of a step; with the last one gradients travel."""

    def score(self, microbatches: Sequence[Microbatch]) -> list[list[Tensor]]:
        """Return logits of each link batch of each microbatch of a rank's slice."""

    def learn(self, loss: Tensor) -> None:
        """Add the gradients of a loss, of which this rank has a share: over ranks they are summed."""

    def step(self) -> None:
        """Make new weights; forget the gradients."""

    def exposed_seconds(self) -> float:
        """Return how long the last gradients still travelled when all were computed, if someone asked
        before."""

    def weights(self) -> Weights:
        """Return the whole weights by name, as exact as they are kept; every rank must call it."""

    def weights_changed(self, exact: Weights | None = None) -> None:
        """Learn on from what was loaded into the model; from `exact` if the model rounds. On every rank."""

    def optimizer_state(self) -> OptimizerState:
        """Return the whole state; every rank must call it."""

    def load_optimizer_state(self, state: OptimizerState) -> None:
        """Take the whole state; every rank must call it."""


def device_type_of(model: nn.Module) -> str:
    return next(model.parameters()).device.type


class DdpEngine:
    """torch's DistributedDataParallel and Adam: gradients travel while others are still computed, but for a
    part of them on three and more ranks of a host (`ordered_sum`)."""

    def __init__(
        self, model: nn.Module, *, learning_rate: float, num_ranks: int, compiled: nn.Module | None = None
    ) -> None:
        """`compiled`: the model as compiled code, if it is to score so."""
        self._model = model
        scorer = MicrobatchScorer(model, compiled=compiled)
        self._scorer = DistributedDataParallel(scorer, gradient_as_bucket_view=True)
        self._let_the_group_end()
        self._all_to_all_time, device_type = AllToAllTime(), device_type_of(model)
        # of its own data parallelism averages over ranks where we want the sum
        self._loss_scale = num_ranks
        if needs_order(num_ranks, device_type):
            self._scorer.register_comm_hook(self._all_to_all_time, ordered_sum_hook)
            self._loss_scale = 1
        else:
            self._settle_order_of_sums()
        adam = adam_settings(device_type)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, **adam)

    def _let_the_group_end(self) -> None:
        """Let Python's wrapper of the group be freed last. A group of ranks ends with its last owner, and
        waits for its threads, which may want the GIL. Python's wrapper lets go of the GIL meanwhile, data
        parallelism's reducer does not: both would wait for ever. What an object holds is freed in the order
        it was given: give the wrapper again, last."""
        self._scorer.__dict__["process_group_until_the_end"] = self._scorer.process_group

    def _settle_order_of_sums(self) -> None:
        """Have weights ordered as they are after the first gradients. Data parallelism orders them anew then,
        and an all-reduce over three ranks of GPUs depends on the place of a weight; a run that goes on must
        not notice."""
        [[something]] = self._scorer(None)
        something.backward()
        self._scorer.zero_grad(set_to_none=True)

    def batch(self, *, is_last: bool) -> AbstractContextManager[None]:
        return nullcontext() if is_last else self._scorer.no_sync()

    def score(self, microbatches: Sequence[Microbatch]) -> list[list[Tensor]]:
        logits: list[list[Tensor]] = self._scorer(microbatches)
        return logits

    def learn(self, loss: Tensor) -> None:
        (loss * self._loss_scale).backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def exposed_seconds(self) -> float:
        # from now on of every step, not of each hundredth
        self._scorer._set_ddp_runtime_logging_sample_rate(1)  # type: ignore[no-untyped-call]
        times = self._scorer._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        hidden = times.get("backward_compute_comm_overlap_time", 0)
        # all-to-alls hold up what is computed, and look like a part of it
        return float(times.get("backward_comm_time", 0) - hidden) / 1e9 + self._all_to_all_time.seconds

    def weights(self) -> Weights:
        return self._model.state_dict()

    def weights_changed(self, exact: Weights | None = None) -> None:
        """Do nothing: the model's weights are the only ones."""

    def optimizer_state(self) -> OptimizerState:
        state = self._optimizer.state
        return {name: dict(state[weight]) for name, weight in self._model.named_parameters() if state[weight]}

    def load_optimizer_state(self, state: OptimizerState) -> None:
        names = [name for name, _ in self._model.named_parameters()]
        groups = self._optimizer.state_dict()["param_groups"]
        by_number = {number: state[name] for number, name in enumerate(names) if name in state}
        self._optimizer.load_state_dict({"state": by_number, "param_groups": groups})
