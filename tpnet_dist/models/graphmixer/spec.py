"""GraphMixer, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.mixer import KEPT_PER_CHANNEL
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.graphmixer.model import GraphMixer
from tpnet_dist.models.graphmixer.published_names import GraphMixerStateNames
from tpnet_dist.models.spec import ModelSpec, Needs


def _build(config: Config, log: LogShape) -> nn.Module:
    model = _settings(config)
    return GraphMixer(
        neighbors=model.neighbors,
        node_width=log.node_width,
        edge_width=log.edge_width,
        time_width=model.time_width,
        channels=model.channels,
        mixer_layers=model.mixer_layers,
        dropout=model.dropout,
        time_gap=model.time_gap,
        profile=model.profile,
        bfloat16=config.training.precision == "bfloat16",
    )


def _needs(config: Config) -> Needs:
    model = _settings(config)
    return Needs(neighbors=model.neighbors, sampling=model.sampling, feature_neighbors=model.time_gap)


def _kept_numbers(config: Config) -> int:
    model = _settings(config)
    # an event and its negative have three ends
    return 3 * model.neighbors * model.channels * model.mixer_layers * KEPT_PER_CHANNEL


def _settings(config: Config) -> GraphMixerConfig:
    assert isinstance(config.model, GraphMixerConfig)
    return config.model


SPEC = ModelSpec(
    name="graphmixer",
    config=GraphMixerConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=GraphMixerStateNames(),
)
