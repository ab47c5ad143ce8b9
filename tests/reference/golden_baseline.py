"""Golden numbers of models without rows of the walk memory: as a data folder, settings and checks of ours.

    data folder → neighbours → link batch → model           the query batch, scored with the initial weights
                                         → TrainStep        gradients of the first step, then the steps

The file does not name its model: the one that takes its weights is meant. The published padding node is node
0; ours is none, so published node i is our node i − 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.reference.golden_checks import Check, count_of_others, difference
from tests.reference.golden_file import EVENTS, QUERIES, Array, open_golden
from tests.reference.golden_intermediates import intermediates_of, is_compared, share_of_rows
from tests.reference.golden_model import EMBEDDINGS, LOGITS, check_links, check_nodes, to_ours
from tests.reference.golden_samplers import PROBABILITIES, SAMPLED, in_one_order, sampled
from tests.reference.golden_sequences import is_sequence, padded_sequences, planned_rows
from tests.reference.golden_trainer import neighbors_in
from tests.support.event_logs import write_log
from tests.support.given_negatives import GivenNegatives
from tpnet_dist.batches.hops import further_hops
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.batches.run_data import planner_of
from tpnet_dist.config.model_configs import model_config_type
from tpnet_dist.config.schema import Config, DataConfig, TrainingConfig
from tpnet_dist.distributed.gather import sum_over_ranks
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import plan_by_events
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.registry import MODELS, needs_of, spec_named, spec_of
from tpnet_dist.models.spec import ModelSpec
from tpnet_dist.neighbors.index import Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries
from tpnet_dist.training.run_model import RunModel

GRADIENTS = "gradients_first_step"
_WEIGHTS, _TRAINED = "weights", "weights_after_training"
"""Of each there is an array for every weight, `weights/NAME`."""
_NEIGHBORS = ("neighbor_ids", "neighbor_edge_ids", "neighbor_times")
_PREDICTOR = "1.fc1.weight"
_MAX_HOPS = 4
SUBSET = ("subset_positive_logits", "subset_negative_logits")
_SCORED = (*EMBEDDINGS, *LOGITS, *SUBSET)
_MEASURES = {GRADIENTS: "of the weight's largest"}
_NO_GRADIENT = 1e-4
"""Such as that of biases of keys, which attention does not depend on."""
_SCALARS = ("batch_size", "warm_batches", "learning_rate")
_RENAMED = {
    "num_neighbors": ("neighbors",),
    "num_layers": ("mixer_layers", "layers"),
    "num_heads": ("heads",),
    "num_walk_heads": ("heads",),
    "max_input_sequence_length": ("sequence_length",),
    "channel_width": ("part_channels",),
}
"""Settings of the file under our names, of which a model has at most one."""


def is_baseline(path: Path) -> bool:
    """Whether the file has no rows of a walk memory."""
    with open_golden(path) as stored:
        return not {"H0", "decay"} & set(stored.files)


class BaselineFile:
    """Read whole: such files are small."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_golden(path) as stored:
            self.arrays: dict[str, Array] = {name: stored[name] for name in stored.files}
        wanted = [*_SCALARS, *EVENTS, *QUERIES, "train_negatives", "train_losses", *LOGITS]
        if missing := [name for name in wanted if name not in self.arrays]:
            raise InputError(f"{path} lacks {', '.join(missing)}; record it with all keys of the layout")
        self.arrays |= in_one_order(self.arrays)
        for prefix in (GRADIENTS, _TRAINED):
            for name, tensor in self.named(prefix).items():
                if name not in self.weights or tensor.shape != self.weights[name].shape:
                    raise InputError(f"{path}: {prefix}/{name} is not as {_WEIGHTS}/{name}; record it again")
        self.arrays[GRADIENTS] = side_by_side(self.named(GRADIENTS))
        self.arrays[_TRAINED] = side_by_side(changes(self.weights, self.named(_TRAINED)))
        self.batch_size, self.warm_batches = int(self["batch_size"]), int(self["warm_batches"])
        self.first_event = self.batch_size * self.warm_batches
        self.num_steps = len(self["train_losses"])
        self._check()

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def named(self, prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(f"{prefix}/"): torch.from_numpy(array)
            for name, array in self.arrays.items()
            if name.startswith(f"{prefix}/")
        }

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        return self.named(_WEIGHTS)

    @cached_property
    def spec(self) -> ModelSpec:
        """Of the model that knows these weights."""
        for name in MODELS:
            spec = spec_named(name)
            if spec.state_names is None:
                continue
            try:
                spec.state_names.config_of(self.weights, self._config(name, ""))
            except ValueError:
                continue
            return spec
        raise InputError(f"{self.path}: its weights are of no model of {', '.join(MODELS)}; record it again")

    def config(self, folder: Path) -> Config:
        config = self._config(self.spec.name, str(folder))
        assert self.spec.state_names is not None
        return self.spec.state_names.config_of(self.weights, config)

    def _config(self, model: str, folder: str) -> Config:
        config_type = model_config_type(model)
        names = {field.name for field in fields(config_type)}
        said: dict[str, Any] = {}
        for name, array in self.arrays.items():
            for ours in names.intersection(_RENAMED.get(name, (name,))):
                if array.ndim == 0:
                    said[ours] = array.item()
        if "channels" in names and _PREDICTOR in self.weights:
            # other settings are checked against it
            said["channels"] = len(self.weights[_PREDICTOR])
        if "sampling" in names:
            # all that is computed is so from the latest neighbours
            said["sampling"] = "recent"
        return Config(
            data=DataConfig(folder=folder),
            model=config_type(**said),
            training=TrainingConfig(batch_size=self.batch_size, learning_rate=float(self["learning_rate"])),
        )

    @cached_property
    def num_nodes(self) -> int:
        """Without the padding node; it has features like others, where there are any."""
        if (features := self.arrays.get("node_features")) is not None:
            return len(features) - 1
        ends = [self[name] for name in ("src", "dst", "query_neg", "train_negatives")]
        return max(int(each.max(initial=1)) for each in ends)

    def _check(self) -> None:
        self._require_shape((len(self["src"]),), *EVENTS)
        self._require_shape((self.batch_size,), *QUERIES, *LOGITS)
        check_links(
            self.path,
            self,
            first_event=self.first_event,
            batch_size=self.batch_size,
            num_steps=self.num_steps,
            num_nodes=self.num_nodes,
        )
        self._require_shape((self.num_steps, self.batch_size), "train_negatives")
        check_nodes(self.path, self, ("train_negatives",), self.num_nodes)
        if "edge_features" in self.arrays and self["edge_id"].max(initial=0) >= len(self["edge_features"]):
            raise InputError(f"{self.path}: edge_features has too few rows for edge_id; record it again")

    def _require_shape(self, shape: tuple[int, ...], *names: str) -> None:
        for name in names:
            if self[name].shape != shape:
                raise InputError(
                    f"{self.path}: {name} has shape {self[name].shape}, but the other keys ask for {shape}; "
                    "record it again"
                )

    def check_weights(self, log: EventLog) -> None:
        """Refuse weights that no model of these settings and features has."""
        config = self.config(log.folder)
        names = spec_of(config).state_names
        assert names is not None
        try:
            names.load(spec_of(config).make(config, log.shape), self.weights)
        except ValueError as error:
            raise InputError(f"{self.path}: {error}") from error

    def write_folder(self, folder: Path) -> EventLog:
        num_nodes = self.num_nodes
        return write_log(
            folder,
            to_ours(self["src"]),
            to_ours(self["dst"]),
            self["time"],
            num_nodes=num_nodes,
            edge_features=self._features("edge_features", self["edge_id"]),
            node_features=self._features("node_features", np.arange(1, num_nodes + 1)),
        )

    def _features(self, key: str, rows: Array) -> Array | None:
        """None if the file has none."""
        features = self.arrays.get(key)
        return features[rows].astype(np.float32) if features is not None and features.shape[1] else None

    def checks(self) -> list[Check]:
        def check(key: str, deviation: Callable[[Array, Array], Array], tolerance: float, unit: str) -> Check:
            return Check(
                quantity=key.replace("_", " "),
                key=key,
                shape=self[key].shape,
                unit=unit,
                found=lambda rank: rank.found[key],
                deviation=deviation,
                measure=_MEASURES.get(key, "entries that differ" if tolerance == 0 else "as it is"),
                tolerance=tolerance,
            )

        exact = [*_NEIGHBORS, *(f"{key}_hop{hop}" for hop in range(2, _MAX_HOPS) for key in _NEIGHBORS)]
        exact += SAMPLED
        return [
            *(check(key, count_of_others, 0, "query") for key in exact if key in self.arrays),
            *(check(key, count_of_others, 0, "row") for key in self.arrays if is_sequence(key)),
            *(check(key, difference, 1e-6, "event") for key in [PROBABILITIES] if key in self.arrays),
            *(check(key, difference, 1e-5, "row") for key in self.compared_intermediates),
            *(check(key, difference, 1e-5, "link") for key in _SCORED if key in self.arrays),
            check(GRADIENTS, self._gradient_deviation, 1e-4, "number"),
            check("train_losses", difference, 1e-4, "step"),
            check(_TRAINED, difference, 1e-4, "number"),
        ]

    @cached_property
    def compared_intermediates(self) -> list[str]:
        return [key for key in self.arrays if is_compared(self.spec.name, key)]

    def _gradient_deviation(self, found: Array, wanted: Array) -> Array:
        """Of each weight as a part of its largest gradient; where that is next to nothing, of rounding."""
        parts = self.named(GRADIENTS)
        largest = [parts[name].abs().max().expand(parts[name].numel()) for name in sorted(parts)]
        return difference(found, wanted) / torch.cat(largest).clamp(min=_NO_GRADIENT).numpy()


class BaselineRank:
    """What a rank of the real trainer finds for each quantity."""

    def __init__(self, golden: BaselineFile, folder: Path, world: World) -> None:
        self.golden, self.world = golden, world
        self.config = golden.config(folder)
        self.log = EventLog(folder)
        self.view = EventView(self.log, 0, len(self.log))
        self.plan = plan_by_events(len(self.log), golden.batch_size)
        self.neighbors = neighbors_in(self.view, world)
        self.parts = RunModel.build(self.config, self.log, world, seed=0)
        names = spec_of(self.config).state_names
        assert names is not None
        names.load(self.parts.model, golden.weights)
        self.names = names

    @cached_property
    def found(self) -> dict[str, Array]:
        found: dict[str, Array] = {**self._neighbors(), **self._score()}
        if SUBSET[0] in self.golden.arrays:
            found |= self._score_subset()
        theirs = self.names.to_published(self.parts.model, self.first_gradients())
        found |= self._on_first_rank({GRADIENTS: self._side_by_side(GRADIENTS, theirs)})
        return found | self._train()

    def _planner(self, negatives: Array) -> LinkPlanner:
        return planner_of(
            self.config,
            self.log,
            self.neighbors,
            [GivenNegatives(negatives, self.golden.first_event)],
            slices=self.world.batch_slices(self.config.training.microbatches),
            key=SampleKey(0, 0),
            dropout=SampleKey(0, 0),
            padding_node=None,
        )

    def _planned(self, negatives: Array, count: int) -> Any:
        requests = self._planner(negatives).requests(
            self.view, self.plan, from_batch=self.golden.warm_batches
        )
        return rows_ahead(None, islice(requests, count), prefetch=0)

    def _neighbors(self) -> dict[str, Array]:
        """Of this rank's share of [src; dst; neg]."""
        golden, needs = self.golden, needs_of(self.config)
        if needs.longest_history:
            return padded_sequences(golden.arrays, self.neighbors, self.world, self.config.model)
        count = needs.neighbors
        nodes = np.concatenate([to_ours(golden[f"query_{end}"]) for end in ("src", "dst", "neg")])
        before = np.searchsorted(golden["time"], np.tile(golden["query_time"], 3))
        mine = np.array_split(np.arange(len(nodes)), self.world.num_ranks)[self.world.rank]
        queries = Queries(torch.from_numpy(nodes[mine].astype(np.int64)), torch.from_numpy(before[mine]))

        def ask(queries: Queries) -> Neighbors:
            return self.neighbors.sample(queries, SAMPLERS["recent"], count=count, key=SampleKey(0, 0))

        found = ask(queries)
        arrays = self._as_published(found, "")
        row_QM = torch.arange(len(mine))[:, None]
        further = needs_of(self.config).hops - 1
        for hop, after in enumerate(
            further_hops([[found]], [[queries.node_B]], further, ask, draws=False)[0], start=2
        ):
            row_QM = after.rows.slot_rows[0][row_QM].flatten(1)
            of_slots = Neighbors(*(column[row_QM].flatten(1) for column in vars(after.found).values()))
            arrays |= self._as_published(of_slots, f"_hop{hop}")
        if SAMPLED[0] in golden.arrays:
            arrays |= self._on_first_rank(sampled(golden.arrays))
        return arrays

    def _as_published(self, found: Neighbors, suffix: str) -> dict[str, Array]:
        mask, golden = found.mask_BM.numpy(), self.golden
        edges = golden["edge_id"][found.events_BM.clamp(min=0).numpy()]
        columns = (found.ids_BM.numpy() + 1, edges, found.times_BM.numpy())
        return {
            f"{name}{suffix}": np.where(mask, column, 0)
            for name, column in zip(_NEIGHBORS, columns, strict=True)
        }

    @torch.inference_mode()
    def _score(self) -> dict[str, Array]:
        model = self.parts.model.eval()
        [(planned, rows)] = self._planned(to_ours(self.golden["query_neg"]), 1)
        [batch] = self.parts.batch_maker.make(planned, rows)
        found = dict(zip(LOGITS, model(batch).unbind(1), strict=True))
        found |= dict(zip(EMBEDDINGS, embeddings_of(model.embed(batch)), strict=True))
        arrays = {key: values.numpy() for key, values in found.items()}
        computed = intermediates_of(self.golden.spec.name, model, batch)
        first_event = int(planned.events_B[0]) - self.golden.first_event if len(planned) else 0
        for key in self.golden.compared_intermediates:
            arrays[key] = share_of_rows(computed[key], first_event, len(self.golden[key]))
        return arrays

    @torch.inference_mode()
    def _score_subset(self) -> dict[str, Array]:
        """Some rows of the query batch as if they were all of it."""
        golden = self.golden
        planner = self._planner(to_ours(golden["query_neg"]))
        query = self.view.read(golden.first_event, golden.first_event + golden.batch_size)
        planned = planned_rows(planner, query, golden["subset_rows"])
        [batch] = self.parts.batch_maker.make(planned, None)
        logits_BC = self.parts.model.eval()(batch)
        return {key: values.numpy() for key, values in zip(SUBSET, logits_BC.unbind(1), strict=True)}

    def first_gradients(self) -> dict[str, Tensor]:
        """Of the first step, summed over ranks."""
        step, model = self.parts.step, self.parts.model.train()
        planned: PlannedLinks
        [(planned, rows)] = self._planned(to_ours(self.golden["train_negatives"].flatten()), 1)
        with step.engine.batch(is_last=True):
            step._learn_from(planned, rows, self.golden.batch_size)
        gradients = {
            name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
        }
        model.zero_grad(set_to_none=True)
        return gradients

    def losses(self) -> Tensor:
        """Of the training steps, summed over ranks; the model learns from them."""
        golden = self.golden
        rows = self._planned(to_ours(golden["train_negatives"].flatten()), golden.num_steps)
        losses = [
            self.parts.step(islice(rows, 1), num_batches=1, num_events=golden.batch_size).loss
            for _ in range(golden.num_steps)
        ]
        return sum_over_ranks(torch.stack(losses))

    def _train(self) -> dict[str, Array]:
        model = self.parts.model
        weights = {name: each.clone() for name, each in self.names.to_published(model).items()}
        losses = self.losses().numpy()
        changed = changes(weights, self.names.to_published(model))
        return self._on_first_rank({"train_losses": losses, _TRAINED: self._side_by_side(_TRAINED, changed)})

    def _side_by_side(self, prefix: str, found: dict[str, Tensor]) -> Array:
        """Those that the file has."""
        return side_by_side({name: found[name] for name in self.golden.named(prefix)})

    def _on_first_rank(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Every rank has the same."""
        return {name: array if self.world.rank == 0 else array[:0] for name, array in arrays.items()}


def embeddings_of(embedded: Any) -> list[Tensor]:
    """Source and destination of the event, then of its negative: of links, or of ends that know no link."""
    if isinstance(embedded, LinkEmbeddings):
        sides = (embedded.source_BCK, embedded.target_BCK)
        return [side_BCK[:, target] for target in (0, 1) for side_BCK in sides]
    return [embedded[:, end] for end in (0, 1, 0, 2)]


def changes(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What training changed. Columns of features that do not exist stay as they were, which is not what ours
    has there."""
    return {name: tensor - before[name] for name, tensor in after.items()}


def side_by_side(tensors: dict[str, Tensor]) -> Array:
    """All numbers of some tensors, in the order of their names."""
    flat = [tensors[name].detach().numpy().ravel() for name in sorted(tensors)]
    return np.concatenate([np.empty(0, np.float32), *flat])


def baseline_on_rank(world: World, path: Path, folder: Path) -> dict[str, Array]:
    """This rank's share of every quantity."""
    golden = BaselineFile(path)
    rank: Any = BaselineRank(golden, folder, world)
    return {check.key: check.found(rank) for check in golden.checks()}
