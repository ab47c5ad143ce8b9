"""DeepSpeed: the optimizer's state, and with stage 2 the gradients, in shares, one per rank.

DeepSpeed lays all weights out in one row and gives each rank a piece of it: float32 weights and Adam's
moments of this piece are on that rank alone.

    weights  a a a a a a b b b c   of three layers, on two ranks
    rank 0   a a a a a             master weights and moments
    rank 1             a b b b c

1. backward    gradients are summed over ranks
2. step        each rank makes new weights of its piece
3. gather      pieces travel to all ranks, into the model
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tpnet_dist.batches.link_batches import Microbatch
from tpnet_dist.distributed.launch_environment import tell_deepspeed
from tpnet_dist.distributed.ordered_sum import needs_order, ordered_sum
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.training.engine import OptimizerState, Weights
from tpnet_dist.training.microbatch_scorer import MicrobatchScorer

MOMENTS = ("exp_avg", "exp_avg_sq")
_log = logging.getLogger(__name__)


class DeepSpeedEngine:
    """Trains with DeepSpeed, on the process group that is there. `settings` come from
    `deepspeed_settings`."""

    def __init__(
        self, model: nn.Module, settings: dict[str, Any], world: World, *, compiled: nn.Module | None = None
    ) -> None:
        self._model = model
        tell_deepspeed(world.rank_of_node, world.device.type)
        self._deepspeed = _import_deepspeed()
        try:
            self._engine, *_ = self._deepspeed.initialize(
                model=MicrobatchScorer(model, compiled=compiled, copies_weights=world.device.type == "cpu"),
                config=settings,
                dist_init_required=None,
            )
        except (AssertionError, ValueError, TypeError, self._deepspeed.DeepSpeedConfigError) as error:
            raise InputError(f"DeepSpeed refuses its settings: {error}; change its JSON") from error
        world.hold_to_timeout(self._engine.seq_data_parallel_group)
        if needs_order(world.num_ranks, world.device.type):
            self._add_in_order()

    def _add_in_order(self) -> None:
        """Add gradients as DDP's engine does, where DeepSpeed would all-reduce a bucket of them."""
        zero = self._engine.optimizer

        def reduce_bucket(bucket: list[Tensor], communication_data_type: torch.dtype, **_: object) -> Tensor:
            return ordered_sum(zero.flatten(bucket).to(communication_data_type), zero.dp_process_group)

        zero.allreduce_bucket = reduce_bucket

    @contextmanager
    def batch(self, *, is_last: bool) -> Iterator[None]:
        self._engine.set_gradient_accumulation_boundary(is_last)
        yield

    def score(self, microbatches: Sequence[Microbatch]) -> list[list[Tensor]]:
        logits: list[list[Tensor]] = self._engine(microbatches)
        return logits

    def learn(self, loss: Tensor) -> None:
        # DeepSpeed averages over batches unless told not to
        self._engine.backward(loss, scale_wrt_gas=False)

    def step(self) -> None:
        self._engine.step()

    def exposed_seconds(self) -> float:
        """Return 0: DeepSpeed does not tell, and gradients that travel count as backward."""
        return 0.0

    def weights(self) -> Weights:
        """Return the weights; of a model in bfloat16 the float32 masters."""
        get = self._deepspeed.utils.safe_get_full_fp32_param
        return {name: get(weight) for name, weight in self._model.named_parameters()}

    def weights_changed(self, exact: Weights | None = None) -> None:
        weights = exact or self._model.state_dict()
        for name, weight in self._model.named_parameters():
            self._deepspeed.utils.safe_set_full_fp32_param(weight, weights[name])

    def optimizer_state(self) -> OptimizerState:
        adam, piece = self._adam_and_piece()
        if piece not in adam.state:  # before the first step
            return {}
        get, step = self._deepspeed.utils.safe_get_full_optimizer_state, adam.state[piece]["step"]
        return {
            name: {"step": step.clone(), **{moment: get(weight, moment) for moment in MOMENTS}}
            for name, weight in self._model.named_parameters()
        }

    def load_optimizer_state(self, state: OptimizerState) -> None:
        """Load the state; call it before the first step of this engine."""
        if not state:
            return
        adam, piece = self._adam_and_piece()
        # all weights have been learned together
        step = next(iter(state.values()))["step"].clone().to(piece.device)
        adam.state[piece] = {"step": step, **{moment: torch.zeros_like(piece) for moment in MOMENTS}}
        # DeepSpeed does this after its first step, when Adam has made its state
        self._engine.optimizer._lazy_init_hp_params_optimizer_state()
        for name, weight in self._model.named_parameters():
            for moment in MOMENTS:
                self._deepspeed.utils.safe_set_full_optimizer_state(weight, state[name][moment], moment)

    def _adam_and_piece(self) -> tuple[torch.optim.Optimizer, Tensor]:
        """Return Adam on this rank, and the weights it learns as one piece."""
        adam: torch.optim.Optimizer = self._engine.optimizer.optimizer
        [piece] = adam.param_groups[0]["params"]
        return adam, piece


def _import_deepspeed() -> Any:  # noqa: ANN401 — it has no types
    """Import DeepSpeed, which takes seconds; it logs to stderr, warnings only unless `--debug` is given."""
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError as error:
        raise InputError(f"DeepSpeed cannot be imported: {error}; use --training.engine ddp") from error
    # what DeepSpeed calls is no user's concern
    warnings.filterwarnings("ignore", "`torch.distributed.all_gather_into_tensor`", FutureWarning)
    # it would compile, for a minute, sums through shared memory that only its inference uses
    deepspeed.ops.__compatible_ops__ = {}
    logger = deepspeed.utils.logger
    level = logging.INFO if _log.isEnabledFor(logging.DEBUG) else logging.WARNING
    logger.setLevel(level)
    for handler in logger.handlers:
        # handlers that others added are theirs
        if type(handler) is logging.StreamHandler:
            handler.setLevel(level)
            handler.setStream(sys.stderr)
    return deepspeed
