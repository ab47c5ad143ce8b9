"""What a golden file says of the model: weights, features, training; as a data folder and settings of ours.

The published padding node comes first, as node 0; ours comes after all others. So published node i is our
node i − 1, and the published node 0 our last.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tests.reference.golden_file import Array, GoldenFile
from tests.support.event_logs import write_log
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig, TrainingConfig
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import Features
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.models.tpnet.published_names import PublishedSizes, load_published, published_sizes

LEARNING_RATE = 1e-4
LINKS = ("positive", "negative")
EMBEDDINGS = tuple(f"{link}_{end}_embedding" for link in LINKS for end in ("src", "dst"))
LOGITS = tuple(f"{link}_logits" for link in LINKS)
QUANTITIES = ("pair_features_src_dst", *EMBEDDINGS, *LOGITS, "train_losses")
_WEIGHTS = "weights/"


def has_model(golden: GoldenFile) -> bool:
    """Whether the file goes beyond the memory; if so, all of the model's keys are asked for."""
    return any(name in QUANTITIES or name.startswith(_WEIGHTS) for name in golden.names())


class GoldenModel:
    """The model's part of a file, refused if it does not fit the rest."""

    def __init__(self, golden: GoldenFile) -> None:
        self.golden, self.path = golden, golden.path
        self.batch_size, self.warm_batches = int(golden["batch_size"]), int(golden["warm_batches"])
        self.num_steps = len(golden.read("train_losses", (None,)))
        check_links(
            self.path,
            golden,
            first_event=self.first_event,
            batch_size=self.batch_size,
            num_steps=self.num_steps,
            num_nodes=golden.num_nodes - 1,
        )
        golden.read("train_negatives", (self.num_steps, self.batch_size))
        check_nodes(self.path, golden, ("train_negatives",), golden.num_nodes - 1)

    @property
    def first_event(self) -> int:
        """The first that is not warm: the query batch begins there, and training."""
        return self.warm_batches * self.batch_size

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        names = [name for name in self.golden.names() if name.startswith(_WEIGHTS)]
        return {name.removeprefix(_WEIGHTS): torch.from_numpy(self.golden.read(name)) for name in names}

    @cached_property
    def sizes(self) -> PublishedSizes:
        try:
            return published_sizes(self.weights)
        except ValueError as error:
            raise InputError(f"{self.path}: {error}") from error

    def query_negatives(self) -> Array:
        return to_ours(self.golden["query_neg"])

    def train_negatives(self) -> Array:
        """Of one event after another."""
        return to_ours(self.golden["train_negatives"].flatten())

    def projection(self) -> Tensor:
        """H0 in the order of our nodes."""
        return torch.from_numpy(np.roll(self.golden["H0"], -1, axis=0))

    def write_folder(self, folder: Path) -> EventLog:
        """The events as a data folder, time 0 being the published one."""
        golden = self.golden
        src, dst = to_ours(golden["src"]), to_ours(golden["dst"])
        return write_log(
            folder,
            src,
            dst,
            golden["time"],
            num_nodes=golden.num_nodes - 1,
            edge_features=self._features("edge_features", golden["edge_id"]),
            node_features=self._features("node_features", np.arange(1, golden.num_nodes)),
        )

    def config(self, folder: Path) -> Config:
        golden, sizes = self.golden, self.sizes
        return Config(
            data=DataConfig(folder=str(folder)),
            memory=MemoryConfig(
                decay=float(golden["decay"]), hops=int(golden["hops"]), width=int(golden["width"])
            ),
            model=TPNetConfig(
                profile="published",
                neighbors=int(golden["num_neighbors"]),
                dropout=0.0,
                time_width=sizes.time_width,
                channels=sizes.channels,
                mixer_layers=sizes.mixer_layers,
            ),
            training=TrainingConfig(batch_size=self.batch_size, learning_rate=LEARNING_RATE),
        )

    def check_weights(self, log: EventLog) -> None:
        """Refuse weights that no model of these settings and features has."""
        config = self.config(log.folder)
        try:
            load_published(spec_of(config).make(config, log.shape), self.weights)
        except ValueError as error:
            raise InputError(f"{self.path}: {error}") from error

    def _features(self, key: str, rows: Array) -> Features | None:
        """None if the file has none; else row = event, or node, of ours."""
        if key not in self.golden.names():
            return None
        features = self.golden.read(key, (None, None))
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(features):
            raise InputError(
                f"{self.path}: {key} has {len(features)} rows, but row {rows.max()} is asked for; "
                "record it again"
            )
        return features[rows].astype(np.float32) if features.shape[1] else None


class Arrays(Protocol):
    """Named arrays."""

    def __getitem__(self, key: str, /) -> Array: ...


def check_nodes(path: Path, golden: Arrays, keys: Sequence[str], num_nodes: int) -> None:
    """Refuse the padding node, and nodes that are not there."""
    for key in keys:
        nodes = golden[key]
        if nodes.size and not 1 <= nodes.min() <= nodes.max() <= num_nodes:
            strange = nodes.min() if nodes.min() < 1 else nodes.max()
            raise InputError(
                f"{path}: {key} holds node {strange}, but nodes are 1…{num_nodes} and 0 is for padding; "
                "record it again"
            )


def check_links(
    path: Path, golden: Arrays, *, first_event: int, batch_size: int, num_steps: int, num_nodes: int
) -> None:
    """Refuse strange nodes, queries that are not the batch after the warm ones, and steps beyond the log."""
    check_nodes(path, golden, ("src", "dst", "query_src", "query_dst", "query_neg"), num_nodes)
    for name in ("src", "dst", "time"):
        batch = golden[name][first_event : first_event + batch_size]
        if not np.array_equal(golden[f"query_{name}"], batch):
            last = first_event + len(batch) - 1
            raise InputError(
                f"{path}: query_{name} is not that of events {first_event}…{last}, the batch after the warm "
                "ones; record it again"
            )
    last = first_event + num_steps * batch_size
    if not first_event < last <= len(golden["src"]):
        raise InputError(
            f"{path}: {num_steps} training steps end at event {last}, but must be at least one "
            f"and end by {len(golden['src'])}; record it again"
        )


def to_ours(nodes: Array) -> Array:
    """Published ids of nodes that are not the padding one."""
    return (nodes - 1).astype(np.int32)
