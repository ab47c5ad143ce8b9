"""DyGFormer, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.link_model import ModelInputs
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.models.dygformer.model import DyGFormer
from tpnet_dist.models.dygformer.published_names import STATE_NAMES
from tpnet_dist.models.spec import ModelSpec, Needs, SequenceSetting, settings_of


def _build(config: Config, log: LogShape) -> nn.Module:
    return DyGFormer(settings_of(config, DyGFormerConfig), ModelInputs.of(config, log))


def _needs(config: Config) -> Needs:
    model = settings_of(config, DyGFormerConfig)
    as_published = model.profile == "published"
    return Needs(
        # an end is itself the first of its sequence
        neighbors=model.sequence_length - 1,
        longest_history=as_published,
        float32_times=as_published,
    )


def _kept_numbers(config: Config) -> int:
    """Count those of the blocks, for both sides of an event and of its negative, and time encodings of three
    ends, their arguments and their cosines."""
    model = settings_of(config, DyGFormerConfig)
    tokens, width = model.sequence_length // model.patch_size, 4 * model.part_channels
    of_blocks = 4 * tokens * model.layers * (_KEPT_PER_CHANNEL * width + 2 * model.heads * tokens)
    return of_blocks + 3 * model.sequence_length * 2 * model.time_width


_KEPT_PER_CHANNEL = 18


SPEC = ModelSpec(
    config=DyGFormerConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=STATE_NAMES,
    sequence=SequenceSetting("sequence_length", multiple_of="patch_size"),
)
