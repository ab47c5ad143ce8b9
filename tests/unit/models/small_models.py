"""Small batches and weights for tests of models without memory."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.model_configs import model_config_type
from tpnet_dist.config.schema import Config, ModelConfig, TrainingConfig
from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import Hop, LinkBatch
from tpnet_dist.models.registry import spec_named

B, S, M, NODES, NODE_WIDTH, EDGE_WIDTH = 6, 3, 4, 10, 3, 2


def built(
    name: str, *, node_width: int = 0, edge_width: int = 0, bfloat16: bool = False, **settings: Any
) -> Any:
    """The model of this name with these settings, as training makes it."""
    torch.manual_seed(0)
    model = model_config_type(name)(name=name, **settings)
    config = Config(model=model, training=TrainingConfig(precision="bfloat16" if bfloat16 else "float32"))
    return spec_named(name).make(config, LogShape(1, 1, node_width, edge_width)).eval()


SMALL: dict[str, dict[str, Any]] = {
    "graphmixer": {"neighbors": M, "mixer_layers": 1, "time_gap": 5},
    "dygformer": {"part_channels": 4, "patch_size": 2},
    "tcl": {"neighbors": M},
    "tgat": {"layers": 2},
    "cawn": {"neighbors": M, "position_width": 8, "heads": 2},
}
"""Settings of all models without memory, for batches of here."""


def small(name: str, **settings: Any) -> Any:
    """A small model, for features as those here if nothing else is said."""
    sizes = {"node_width": NODE_WIDTH, "edge_width": EDGE_WIDTH, "time_width": 6, "channels": 8}
    return built(name, **{**sizes, **SMALL[name], **settings})


def batch_for(name: str) -> LinkBatch:
    """What the model of this name needs."""
    batch = random_batch(ends=4)
    if name == "graphmixer":
        return replace(batch, neighbor_means_BSF=torch.randn(B, 4, NODE_WIDTH))
    return with_hops(batch) if name == "tgat" else batch


def there_and_back(name: str, model: nn.Module, other: nn.Module) -> tuple[dict[str, Tensor], ModelConfig]:
    """Names a model's weights as published and loads them into another one, which has the same then; returns
    them, and the settings that they tell."""
    names = spec_named(name).state_names
    assert names is not None
    published = names.to_published(spread(model))
    names.load(other, published)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    return published, names.config_of(published, Config(model=model_config_type(name)(name=name))).model


def random_batch(*, slots: int = M, ends: int = S) -> LinkBatch:
    """Some ends have no neighbour, some all."""
    torch.manual_seed(1)
    degrees_BS = torch.randint(0, slots + 2, (B, ends))
    mask_BSM = torch.arange(slots, 0, -1) <= degrees_BS[..., None]
    return LinkBatch(
        ends_BS=torch.randint(NODES, (B, ends)),
        neighbors_BSM=torch.randint(NODES, (B, ends, slots)),
        neighbor_mask_BSM=mask_BSM,
        elapsed_BSM=torch.rand(B, ends, slots) * 1000,
        node_features_UF=torch.randn(NODES, NODE_WIDTH),
        edge_features_BSMF=torch.randn(B, ends, slots, EDGE_WIDTH),
        dropout_keys_B=event_keys(0, 0, torch.arange(B)),
    )


def with_hops(batch: LinkBatch, *, hops: int = 2, rows: int = 9) -> LinkBatch:
    """Every hop after the first has so many rows; the first of each is nobody."""
    torch.manual_seed(2)
    slots = batch.neighbors_BSM.shape[2]
    degrees_V = torch.randint(0, slots + 2, (rows,)) * (torch.arange(rows) > 0)
    mask_VM = torch.arange(slots, 0, -1) <= degrees_V[:, None]
    since_zero_V1 = 5000.0 * (torch.arange(rows) > 0)[:, None]
    further = tuple(
        Hop(
            nodes_V=torch.randint(NODES, (rows,)),
            neighbors_VM=torch.randint(NODES, (rows, slots)),
            mask_VM=mask_VM,
            elapsed_VM=torch.where(mask_VM, torch.rand(rows, slots).double() * 1000, since_zero_V1.double()),
            edge_features_VMF=torch.randn(rows, slots, EDGE_WIDTH) * mask_VM[..., None],
            rows_VM=torch.randint(1, rows, (rows, slots)) * mask_VM if hop < hops else None,
            dropout_keys_V=event_keys(0, 1, torch.arange(rows)),
        )
        for hop in range(2, hops + 1)
    )
    hop_rows_BSM = torch.randint(1, rows, batch.neighbors_BSM.shape) * batch.neighbor_mask_BSM
    return replace(batch, elapsed_BSM=batch.elapsed_BSM.double(), hop_rows_BSM=hop_rows_BSM, hops=further)


def spread(model: nn.Module) -> nn.Module:
    """Moves all weights, so that a forgotten one shows."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.rand_like(weight))
    return model


def in_the_company_of_none(model: nn.Module, batch: LinkBatch) -> tuple[Tensor, Tensor]:
    """Logits event by event, and target by target."""
    alone = torch.cat([model(batch[number : number + 1]) for number in range(len(batch))])
    by_target = torch.cat([model(part) for part in batch.split_targets(1)], dim=1)
    return alone, by_target
