"""What a rank of the real trainer finds for each of the model's quantities of a golden file.

data folder → plan → memory → query → model             the query batch, scored with the initial weights
                                    → TrainStep         then the training steps, from the same batch on
"""

from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from tests.reference.golden_file import Array
from tests.reference.golden_model import EMBEDDINGS, LOGITS, GoldenModel
from tests.support.given_negatives import GivenNegatives
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.batches.run_data import chunks_of, planner_of
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.gather import sum_over_ranks
from tpnet_dist.distributed.world import World
from tpnet_dist.events.batch_plan import plan_by_events
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.tpnet.published_names import load_published
from tpnet_dist.neighbors.build import build_neighbor_index
from tpnet_dist.neighbors.sharded import ShardedNeighbors
from tpnet_dist.training.run_model import RunModel


class TrainerRank:
    """A rank of the trainer with the published weights and random features, after the warm batches."""

    def __init__(self, model: GoldenModel, folder: Path, world: World) -> None:
        self.golden_model, self.world = model, world
        self.config = model.config(folder)
        self.log = EventLog(folder)
        self.view = EventView(self.log, 0, len(self.log))
        self.plan = plan_by_events(len(self.log), model.batch_size)
        self.neighbors = neighbors_in(self.view, world)
        self.parts = RunModel.build(self.config, self.log, world, seed=0)
        load_published(self.parts.model, model.weights)
        self._record_warm_batches()
        # scored before trained: both begin with the weights and rows as they are now
        self.scored = self._score()
        self.losses = self._train()

    def share_of_losses(self) -> Array:
        """All on the first rank: every rank has the same."""
        return self.losses if self.world.rank == 0 else self.losses[:0]

    def _record_warm_batches(self) -> None:
        memory = self.parts.memory
        assert memory is not None
        own = slice(memory.first_node, memory.stop_node)
        memory.table.start_from(self.golden_model.projection()[own], torch.arange(own.stop - own.start))
        replay(memory, self.log, self.view, self.plan, num_batches=self.golden_model.warm_batches)

    def _planner(self, negatives: Array) -> LinkPlanner:
        return planner_of(
            self.config,
            self.log,
            self.neighbors,
            [GivenNegatives(negatives, self.golden_model.first_event)],
            slices=self.world.batch_slices(self.config.training.microbatches),
            key=SampleKey(0, 0),
            dropout=SampleKey(0, 0),
            padding_node=self.parts.padding_node,
        )

    @torch.inference_mode()
    def _score(self) -> dict[str, Array]:
        """The query batch; nothing is recorded."""
        model, golden_model = self.parts.model.eval(), self.golden_model
        requests = self._planner(golden_model.query_negatives()).requests(
            self.view,
            self.plan,
            from_batch=golden_model.warm_batches,
            record=False,
            memory_time=golden_model.golden.recorded_time,
        )
        [(planned, rows)] = rows_ahead(self.parts.memory, islice(requests, 1), prefetch=0)
        [query] = self.parts.batch_maker.make(planned, rows)
        links, logits_B2 = model.embed(query), model(query)
        assert links.pair_features_BCP is not None
        ends = [
            end_BK
            for target in (0, 1)
            for end_BK in (links.source_BCK[:, target], links.target_BCK[:, target])
        ]
        found = dict(zip((*EMBEDDINGS, *LOGITS), (*ends, *logits_B2.unbind(1)), strict=True))
        found["pair_features_src_dst"] = links.pair_features_BCP[:, 0]
        return {key: values.numpy() for key, values in found.items()}

    def _train(self) -> Array:
        """The losses of the training steps, of all ranks together."""
        golden_model, batch_size = self.golden_model, self.golden_model.batch_size
        requests = self._planner(golden_model.train_negatives()).requests(
            self.view,
            self.plan,
            from_batch=golden_model.warm_batches,
            memory_time=golden_model.golden.recorded_time,
        )
        rows = rows_ahead(
            self.parts.memory, islice(requests, golden_model.num_steps), prefetch=self.config.memory.prefetch
        )
        losses: list[Tensor] = []
        for _ in range(golden_model.num_steps):
            outcome = self.parts.step(islice(rows, 1), num_batches=1, num_events=batch_size)
            losses.append(outcome.loss)
        assert next(rows, None) is None, "as many batches as steps"
        return sum_over_ranks(torch.stack(losses)).numpy()


def neighbors_in(view: EventView, world: World) -> ShardedNeighbors:
    """Of all events, as in the published runs."""
    own = Blocks(view.log.num_nodes, world.num_ranks).range_of(world.rank)
    index = build_neighbor_index(lambda: chunks_of(view), *own)
    return ShardedNeighbors(index, view.log.num_nodes, world.new_exchange())
