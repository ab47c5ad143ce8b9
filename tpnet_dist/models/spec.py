"""What the toolkit must know of a model: how it is built, what its batches hold, whose weights it takes.

Everything outside `models/` knows models by their spec alone. A new one is a folder with `config.py`,
`spec.py` and its modules, and its name in `registry.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config, ModelConfig
from tpnet_dist.models.link_batch import LinkBatch

Sampling = Literal["recent", "uniform", "time_interval_aware"]
Settings = TypeVar("Settings", bound=ModelConfig)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The contents of a model's batches beside the ends of links; the planner makes exactly this."""

    neighbors: int
    """Slots of interactions of each end."""
    hops: int = 1
    """2: neighbours have neighbours too, before the time of the interaction that makes them neighbours; and
    so on. Elapsed times are float64 then."""
    sampling: Sampling = "recent"
    interval_scaling: float = 1e-6
    """α of `time_interval_aware` sampling, per second."""
    rows: bool = False
    """Rows of the walk memory; without them no memory is made."""
    padding_node: bool = False
    """Empty slots stand for a node of their own, and rows are read at the last recorded time, as in TPNet's
    released code."""
    feature_neighbors: int = 0
    """Mean node feature of so many of the latest interactions of each end."""
    longest_history: bool = False
    """Whether it matters how long the longest history in a whole timestamp batch is."""
    float32_times: bool = False
    """Whether the log's times are rounded to float32 before elapsed times are taken, as DyGLib's DyGFormer
    has them."""

    @property
    def draws(self) -> bool:
        """Whether neighbours are drawn at random."""
        return self.sampling != "recent"


class StateNames(Protocol):
    """Weights under the names of a published implementation."""

    def config_of(self, state: Mapping[str, Tensor], config: Config) -> Config:
        """Return the settings with the sizes that a published checkpoint has; ValueError if it is no such."""

    def random_features(self, state: Mapping[str, Tensor]) -> Tensor | None:
        """Return what rows of the walk memory started from, by raw id, the padding node's first; None:
        nothing."""

    def to_published(
        self, model: nn.Module, tensors: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Return the model's weights, or other tensors by the weights' names, as the published code has
        them."""

    def load(self, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        """Take a published checkpoint's weights; ValueError if the sizes differ."""


@dataclass(frozen=True)
class SequenceSetting:
    """The setting that says how long sequences are, and the one whose multiple it is."""

    length: str
    multiple_of: str


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One model."""

    config: type[ModelConfig]
    """The type of the model's own settings: flags, TOML keys, docs and checks come from it."""
    build: Callable[[Config, LogShape], nn.Module]
    """Builds the model for one device: LinkBatch → logits (events, destinations)."""
    needs: Callable[[Config], Needs]
    kept_numbers: Callable[[Config], int]
    """The numbers that a training step keeps for the backward pass, per event and at the least."""
    state_names: StateNames | None = None
    """The names of published checkpoints; None: nothing published can be taken."""
    sequence: SequenceSetting | None = None
    """What to lower where a step does not fit; None: no single setting."""
    prepare: Callable[[Config, LinkBatch], object] | None = None
    """Prepares a batch on the host, as a dataclass of tensors that go to the model's device; None: nothing is
    prepared."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def title(self) -> str:
        return self.config.title

    def make(self, config: Config, log: LogShape) -> nn.Module:
        """Build a model. Initial weights come from torch's generator; features that do not exist have no
        weights."""
        return self.build(config, log).to(weight_dtype(config))


def settings_of(config: Config, kind: type[Settings]) -> Settings:
    """Return the settings of the model, which are of this kind."""
    assert isinstance(config.model, kind)
    return config.model


def weight_dtype(config: Config) -> torch.dtype:
    """Return the type of weights, rows and losses: bfloat16 keeps too few bits for them."""
    return torch.float64 if config.training.precision == "float64" else torch.float32


def preparation(config: Config, spec: ModelSpec) -> Callable[[LinkBatch], object] | None:
    """Return the function that prepares a batch ahead under these settings; None: nothing is prepared."""
    return None if spec.prepare is None else partial(spec.prepare, config)
