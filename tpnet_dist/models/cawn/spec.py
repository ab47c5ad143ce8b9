"""CAWN, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.cawn.config import CAWNConfig
from tpnet_dist.models.cawn.model import CAWN
from tpnet_dist.models.cawn.published_names import STATE_NAMES
from tpnet_dist.models.common.link_model import ModelInputs
from tpnet_dist.models.spec import ModelSpec, Needs, settings_of


def _build(config: Config, log: LogShape) -> nn.Module:
    return CAWN(settings_of(config, CAWNConfig), ModelInputs.of(config, log))


def _needs(config: Config) -> Needs:
    model = settings_of(config, CAWNConfig)
    return Needs(
        neighbors=model.neighbors,
        hops=model.walk_length,
        sampling=model.sampling,
        interval_scaling=model.interval_scaling,
    )


def _kept_numbers(config: Config) -> int:
    """Return the numbers that the attention block keeps, which all walks of the two links' four ends go
    through."""
    model = settings_of(config, CAWNConfig)
    width = (model.channels + model.edge_channels + model.time_width + model.position_width) // 2
    walks_of_end: int = model.neighbors**model.walk_length
    return 4 * walks_of_end * (_KEPT_PER_CHANNEL * width + 2 * model.heads * walks_of_end)


_KEPT_PER_CHANNEL = 12


SPEC = ModelSpec(
    config=CAWNConfig, build=_build, needs=_needs, kept_numbers=_kept_numbers, state_names=STATE_NAMES
)
