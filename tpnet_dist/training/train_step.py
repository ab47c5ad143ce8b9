"""One optimizer step, in the order the data flows.

    plan, fetch, record    negatives, neighbours, rows: done ahead of us, in the pipeline's thread; on a GPU
                           rows of the next batch are launched when we ask for this one
    score                  logits of the events and of what they are scored against
    learn                  binary cross-entropy → gradients → all-reduce → Adam

Every rank scores its slice of each timestamp batch of the step, in microbatches. The loss is the mean over
all links of the step, so gradients do not depend on the number of ranks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tpnet_dist.batches.link_batches import LinkBatchMaker, PlannedRows
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.models.common.loss import joined, links_loss, split_logits
from tpnet_dist.spans import Span
from tpnet_dist.training.engine import Engine


@dataclass(frozen=True)
class StepOutcome:
    """Holds this rank's share of what a step gave; nothing has been waited for."""

    loss: Tensor
    """Summed over the ranks it is the loss of the step."""
    positive: Tensor
    negative: Tensor


@dataclass(frozen=True)
class TrainStep:
    """Does one step of the optimizer, with all that it needs."""

    model: nn.Module
    engine: Engine
    batch_maker: LinkBatchMaker
    seed: int

    def __call__(
        self,
        batches: Iterable[PlannedRows],
        *,
        num_batches: int,
        num_events: int,
        epoch: int,
    ) -> StepOutcome:
        """Learn from these batches. `num_events`: of the whole step, on all ranks."""
        self.model.train()
        outcomes = []
        for number, (planned, rows) in enumerate(_waiting_for(batches), start=1):
            with self.engine.batch(is_last=number == num_batches):
                outcomes.append(self._learn_from(planned, rows, num_events, epoch))
        with Span("optimizer"):
            self.engine.step()
        losses, positives, negatives = zip(*outcomes, strict=True)
        return StepOutcome(_sum(losses), joined(positives), joined(negatives))

    def _learn_from(
        self, planned: PlannedLinks, rows: FetchedRows | None, num_events: int, epoch: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        with Span("make batch"):
            dropout = SampleKey(self.seed, epoch)
            microbatches = self.batch_maker.microbatches(planned, rows, dropout)
        with Span("score"):
            scored = [split_logits(logits) for logits in self.engine.score(microbatches)]
            losses = [links_loss(*logits) / (2 * num_events) for logits in scored]
        with Span("backward"):
            self.engine.learn(_sum(losses))
        # in float64 a few float32 add up to the same in any order
        loss = _sum([loss.detach().double() for loss in losses])
        positive, negative = (joined(logits).detach() for logits in zip(*scored, strict=True))
        return loss, positive, negative


def _sum(losses: Sequence[Tensor]) -> Tensor:
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).sum()


def _waiting_for(batches: Iterable[PlannedRows]) -> Iterator[PlannedRows]:
    iterator = iter(batches)
    while True:
        with Span("wait"):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch
