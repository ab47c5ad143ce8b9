"""TPNet, as the toolkit knows it."""

from torch import nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.mixer import numbers_kept
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.spec import ModelSpec, Needs, settings_of
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.models.tpnet.published_names import TPNetStateNames
from tpnet_dist.models.tpnet.token_slots import TokenSlots


def _build(config: Config, log: LogShape) -> nn.Module:
    model = settings_of(config, TPNetConfig)
    return TPNet(
        hops=config.memory.hops,
        timescales=config.memory.timescales,
        cross_timescales=model.cross_timescales,
        neighbors=model.neighbors,
        node_width=log.node_width,
        edge_width=log.edge_width,
        time_width=model.time_width,
        channels=model.channels,
        mixer_layers=model.mixer_layers,
        dropout=model.dropout,
        profile=model.profile,
        use_memory=config.memory.enabled,
        scale=model.scale,
        bfloat16=config.training.precision == "bfloat16",
        triton=config.training.triton,
    )


def _needs(config: Config) -> Needs:
    model = settings_of(config, TPNetConfig)
    return Needs(
        neighbors=model.neighbors,
        sampling=model.sampling,
        rows=config.memory.enabled,
        padding_node=model.profile == "published",
    )


def _prepare(config: Config, batch: LinkBatch) -> TokenSlots:
    mask_empty = settings_of(config, TPNetConfig).profile == "paper"
    padded = config.training.compile != "off"
    return TokenSlots.with_pairs(batch.neighbor_mask_BSM, mask_empty=mask_empty, padded=padded)


def _kept_numbers(config: Config) -> int:
    model = settings_of(config, TPNetConfig)
    # two links have four ends
    return 4 * numbers_kept(model.mixer_layers, model.neighbors, model.channels)


SPEC = ModelSpec(
    config=TPNetConfig,
    build=_build,
    needs=_needs,
    kept_numbers=_kept_numbers,
    state_names=TPNetStateNames(),
    prepare=_prepare,
)
