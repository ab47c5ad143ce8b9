"""Scores a rank's microbatches so that their gradients are added in a fixed order.

Each microbatch is scored by itself, with weights of its own as far as autograd can tell. Autograd adds the
gradients of two neighbours first, then those of pairs, whatever the number of ranks. Across ranks the same
order goes on in `distributed.ordered_sum`; nothing else knows of it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tpnet_dist.batches.link_batches import Microbatch
from tpnet_dist.models.link_batch import LinkBatch

COMPILED_PREFIX = "_orig_mod."
"""The prefix that names of weights have in a compiled model."""


class MicrobatchScorer(nn.Module):
    """All microbatches of a batch in one forward pass, as data parallelism wants it."""

    def __init__(
        self, model: nn.Module, *, compiled: nn.Module | None = None, copies_weights: bool = False
    ) -> None:
        """`compiled`: the same model, which scores in its place; `copies_weights`: where weights lie at odd
        places of a larger tensor, which a host's products may round otherwise, though rarely."""
        super().__init__()
        self.model, self._copies_weights = model, copies_weights
        # not a part of this module: its weights are the model's
        self._compiled = [] if compiled is None else [compiled]
        self._is_on_host = next(model.parameters()).device.type == "cpu"

    def forward(self, microbatches: Sequence[Microbatch] | None) -> list[list[Tensor]]:
        """Return the logits of each link batch; without microbatches, something that every weight has a part
        in."""
        if microbatches is None:
            return [[torch.stack([weight.sum() for weight in self.model.parameters()]).sum()]]
        if len(microbatches) == 1 and not self._is_on_host:
            return [[self._logits(batch) for batch in microbatches[0]]]
        weights = dict(self.model.named_parameters())
        if self._copies_weights:
            return self._score(microbatches, {name: weight.clone() for name, weight in weights.items()})
        return self._score(microbatches, weights)

    def _score(
        self, microbatches: Sequence[Microbatch], weights: dict[str, Tensor] | dict[str, nn.Parameter]
    ) -> list[list[Tensor]]:
        views: dict[str, Tensor] = {name: weight.view_as(weight) for name, weight in weights.items()}
        if len(microbatches) == 1:
            return [[self._logits(batch, views) for batch in microbatches[0]]]
        half = len(microbatches) // 2
        return [*self._score(microbatches[:half], views), *self._score(microbatches[half:], views)]

    def _logits(self, batch: LinkBatch, weights: dict[str, Tensor] | None = None) -> Tensor:
        logits: Tensor
        if not self._compiled:
            logits = self.model(batch) if weights is None else functional_call(self.model, weights, (batch,))
            return logits
        [compiled] = self._compiled
        if weights is None:
            logits = compiled(batch)
        else:
            named = {COMPILED_PREFIX + name: weight for name, weight in weights.items()}
            logits = functional_call(compiled, named, (batch,))
        # a CUDA graph writes the next logits to the same place
        return logits.clone() if logits.is_cuda else logits
