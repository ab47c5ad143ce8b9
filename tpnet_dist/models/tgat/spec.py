"""TGAT, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.models.common.link_model import ModelInputs
from tpnet_dist.models.spec import ModelSpec, Needs, settings_of
from tpnet_dist.models.tgat.config import TGATConfig
from tpnet_dist.models.tgat.model import TGAT
from tpnet_dist.models.tgat.published_names import STATE_NAMES


def _build(config: Config, log: LogShape) -> nn.Module:
    model = settings_of(config, TGATConfig)
    if log.node_width > model.channels:
        raise InputError(
            f"model.channels is {model.channels}, but must be at least {log.node_width}, the width of this "
            "log's node features, which TGAT adds to embeddings; raise it"
        )
    return TGAT(model, ModelInputs.of(config, log))


def _needs(config: Config) -> Needs:
    model = settings_of(config, TGATConfig)
    return Needs(neighbors=model.neighbors, hops=model.layers, sampling=model.sampling)


def _kept_numbers(config: Config) -> int:
    """Time encodings of the three ends and of what stands in their slots, if half of it is distinct: their
    arguments and their cosines."""
    model = settings_of(config, TGATConfig)
    rows = sum((model.neighbors / 2) ** hop for hop in range(model.layers))
    return int(3 * rows * model.neighbors * 2 * model.time_width)


SPEC = ModelSpec(
    config=TGATConfig, build=_build, needs=_needs, kept_numbers=_kept_numbers, state_names=STATE_NAMES
)
