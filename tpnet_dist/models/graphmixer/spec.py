"""GraphMixer, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.link_model import ModelInputs
from tpnet_dist.models.common.mixer import numbers_kept
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.graphmixer.model import GraphMixer
from tpnet_dist.models.graphmixer.published_names import STATE_NAMES
from tpnet_dist.models.spec import ModelSpec, Needs, settings_of


def _build(config: Config, log: LogShape) -> nn.Module:
    return GraphMixer(settings_of(config, GraphMixerConfig), ModelInputs.of(config, log))


def _needs(config: Config) -> Needs:
    model = settings_of(config, GraphMixerConfig)
    return Needs(neighbors=model.neighbors, sampling=model.sampling, feature_neighbors=model.time_gap)


def _kept_numbers(config: Config) -> int:
    model = settings_of(config, GraphMixerConfig)
    # an event and its negative have three ends
    return 3 * numbers_kept(model.mixer_layers, model.neighbors, model.token_width)


SPEC = ModelSpec(
    config=GraphMixerConfig, build=_build, needs=_needs, kept_numbers=_kept_numbers, state_names=STATE_NAMES
)
