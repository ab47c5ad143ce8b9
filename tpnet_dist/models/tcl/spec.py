"""TCL, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.spec import ModelSpec, Needs
from tpnet_dist.models.tcl.config import TCLConfig
from tpnet_dist.models.tcl.model import TCL
from tpnet_dist.models.tcl.published_names import STATE_NAMES


def _build(config: Config, log: LogShape) -> nn.Module:
    model = _settings(config)
    return TCL(
        neighbors=model.neighbors,
        node_width=log.node_width,
        edge_width=log.edge_width,
        time_width=model.time_width,
        channels=model.channels,
        layers=model.layers,
        heads=model.heads,
        dropout=model.dropout,
        profile=model.profile,
        bfloat16=config.training.precision == "bfloat16",
    )


def _needs(config: Config) -> Needs:
    model = _settings(config)
    return Needs(neighbors=model.neighbors, sampling=model.sampling)


def _kept_numbers(config: Config) -> int:
    model = _settings(config)
    # an event and its negative have three ends and are four sides of links
    return 4 * (model.neighbors + 1) * model.channels * model.layers * 20


def _settings(config: Config) -> TCLConfig:
    assert isinstance(config.model, TCLConfig)
    return config.model


SPEC = ModelSpec(
    name="tcl",
    config=TCLConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=STATE_NAMES,
)
