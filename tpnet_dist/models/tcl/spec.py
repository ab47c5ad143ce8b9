"""TCL, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.link_model import ModelInputs
from tpnet_dist.models.spec import ModelSpec, Needs, settings_of
from tpnet_dist.models.tcl.config import TCLConfig
from tpnet_dist.models.tcl.model import TCL
from tpnet_dist.models.tcl.published_names import STATE_NAMES


def _build(config: Config, log: LogShape) -> nn.Module:
    return TCL(settings_of(config, TCLConfig), ModelInputs.of(config, log))


def _needs(config: Config) -> Needs:
    model = settings_of(config, TCLConfig)
    return Needs(neighbors=model.neighbors, sampling=model.sampling)


def _kept_numbers(config: Config) -> int:
    model = settings_of(config, TCLConfig)
    # an event and its negative have three ends and are four sides of links
    return 4 * (model.neighbors + 1) * model.channels * model.layers * 20


SPEC = ModelSpec(
    config=TCLConfig, build=_build, needs=_needs, kept_numbers=_kept_numbers, state_names=STATE_NAMES
)
