"""CAWN, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.cawn.config import CAWNConfig
from tpnet_dist.models.cawn.model import CAWN
from tpnet_dist.models.cawn.published_names import STATE_NAMES
from tpnet_dist.models.spec import ModelSpec, Needs


def _build(config: Config, log: LogShape) -> nn.Module:
    model = _settings(config)
    return CAWN(
        neighbors=model.neighbors,
        walk_length=model.walk_length,
        node_width=log.node_width,
        edge_width=log.edge_width,
        time_width=model.time_width,
        position_width=model.position_width,
        channels=model.channels,
        padded_edges=model.edge_channels,
        heads=model.heads,
        dropout=model.dropout,
        profile=model.profile,
        bfloat16=config.training.precision == "bfloat16",
    )


def _needs(config: Config) -> Needs:
    model = _settings(config)
    return Needs(
        neighbors=model.neighbors,
        hops=model.walk_length,
        sampling=model.sampling,
        interval_scaling=model.interval_scaling,
    )


def _kept_numbers(config: Config) -> int:
    """Return the numbers that the attention block keeps, which all walks of the two links' four ends go
    through."""
    model = _settings(config)
    width = (model.channels + model.edge_channels + model.time_width + model.position_width) // 2
    walks_of_end: int = model.neighbors**model.walk_length
    return 4 * walks_of_end * (_KEPT_PER_CHANNEL * width + 2 * model.heads * walks_of_end)


_KEPT_PER_CHANNEL = 12


def _settings(config: Config) -> CAWNConfig:
    assert isinstance(config.model, CAWNConfig)
    return config.model


SPEC = ModelSpec(
    name="cawn",
    config=CAWNConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=STATE_NAMES,
)
