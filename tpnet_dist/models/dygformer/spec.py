"""DyGFormer, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.models.dygformer.model import DyGFormer
from tpnet_dist.models.dygformer.published_names import STATE_NAMES
from tpnet_dist.models.spec import ModelSpec, Needs, SequenceSetting


def _build(config: Config, log: LogShape) -> nn.Module:
    model = _settings(config)
    return DyGFormer(
        node_width=log.node_width,
        edge_width=log.edge_width,
        time_width=model.time_width,
        patch_size=model.patch_size,
        part_channels=model.part_channels,
        channels=model.channels,
        layers=model.layers,
        heads=model.heads,
        dropout=model.dropout,
        profile=model.profile,
        bfloat16=config.training.precision == "bfloat16",
    )


def _needs(config: Config) -> Needs:
    model = _settings(config)
    as_published = model.profile == "published"
    return Needs(
        # an end is itself the first of its sequence
        neighbors=model.sequence_length - 1,
        longest_history=as_published,
        float32_times=as_published,
    )


def _kept_numbers(config: Config) -> int:
    """Of the blocks, through which go two sides of an event and of its negative; and time encodings of three
    ends, their arguments and their cosines."""
    model = _settings(config)
    tokens, width = model.sequence_length // model.patch_size, 4 * model.part_channels
    of_blocks = 4 * tokens * model.layers * (_KEPT_PER_CHANNEL * width + 2 * model.heads * tokens)
    return of_blocks + 3 * model.sequence_length * 2 * model.time_width


_KEPT_PER_CHANNEL = 18


def _settings(config: Config) -> DyGFormerConfig:
    assert isinstance(config.model, DyGFormerConfig)
    return config.model


SPEC = ModelSpec(
    name="dygformer",
    config=DyGFormerConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=STATE_NAMES,
    sequence=SequenceSetting("sequence_length", multiple_of="patch_size"),
)
