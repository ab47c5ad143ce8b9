"""The published model as the text has it, nothing reduced: for parity, and as the competitor.

All (2L × 2L) inner products of each pair, f of a neighbour with both ends for each link anew, features that
do not exist multiplied as zeros, positive and negative links apart. Parameters bear the published names.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LiteralSizes(Protocol):
    """Sizes of a model, features padded as the released code pads them."""

    @property
    def hops(self) -> int: ...
    @property
    def neighbors(self) -> int: ...
    @property
    def node_width(self) -> int: ...
    @property
    def edge_width(self) -> int: ...
    @property
    def time_width(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def mixer_layers(self) -> int: ...
    @property
    def use_memory(self) -> bool: ...


@dataclass(frozen=True)
class LiteralLinks:
    """Links, every slot with its own copy of the rows as read; of axis 2 the first is the source's."""

    rows_X2LD: Tensor | None
    neighbor_rows_X2MLD: Tensor | None
    neighbor_mask_X2M: Tensor
    elapsed_X2M: Tensor
    node_features_X2MF: Tensor
    edge_features_X2MF: Tensor


def literal_links(
    query: Any,  # noqa: ANN401 — what the product asks a model
    target: int,
    sizes: LiteralSizes,
) -> LiteralLinks:
    """The links of each event's source with its destination number `target`, features padded with zeros."""
    ends = [0, 1 + target]
    neighbors = query.neighbors_BSM[:, ends]
    rows = neighbor_rows = None
    if query.rows_ULD is not None:
        rows = query.rows_ULD[query.ends_BS[:, ends]] * query.end_factors_BSL[:, ends, :, None]
        neighbor_rows = query.rows_ULD[neighbors] * query.neighbor_factors_BSML[:, ends, ..., None]
    node_features, edge_features = query.node_features_UF, query.edge_features_BSMF
    return LiteralLinks(
        rows,
        neighbor_rows,
        query.neighbor_mask_BSM[:, ends],
        query.elapsed_BSM[:, ends],
        _padded(node_features[neighbors] if node_features is not None else None, neighbors, sizes.node_width),
        _padded(edge_features[:, ends] if edge_features is not None else None, neighbors, sizes.edge_width),
    )


def _padded(features: Tensor | None, slots: Tensor, width: int) -> Tensor:
    if features is None:
        return torch.zeros(*slots.shape, width)
    return F.pad(features, (0, width - features.shape[-1]))


class LiteralTPNet(nn.Sequential):
    """Backbone and predictor, so that `state_dict` has the published names."""

    def __init__(
        self, sizes: LiteralSizes, *, dropout: float = 0.0, mask_empty: bool = False, scale: bool = True
    ) -> None:
        backbone = _Backbone(sizes, dropout)
        pair_width = 4 * (sizes.hops + 1) ** 2 if sizes.use_memory else 0
        super().__init__(backbone, _Predictor(2 * sizes.channels + pair_width, sizes.channels))
        self.mask_empty, self.scale, self.use_memory = mask_empty, scale, sizes.use_memory

    def forward(self, links: LiteralLinks) -> Tensor:
        """Logits (X)."""
        parts = [*self.embed(links).unbind(1)]
        if self.use_memory:
            parts.append(self.pair_features(*links.rows_X2LD.unbind(1)))
        return self[1](torch.cat(parts, 1))

    def embed(self, links: LiteralLinks) -> Tensor:
        """h of source and destination: (X, 2, K)."""
        backbone = self[0]
        time_encoder = backbone.time_encoder.w
        logarithm_X2M = torch.log(links.elapsed_X2M.to(time_encoder.weight.dtype) + 1.0)
        time_X2MF = torch.cos(time_encoder(logarithm_X2M[..., None]))
        parts = [links.node_features_X2MF, time_X2MF, links.edge_features_X2MF]
        if self.use_memory:
            parts += self._neighbor_features(links)
        x_X2MK = backbone.embedding_module.projection_layer(torch.cat(parts, -1))
        if self.mask_empty:
            x_X2MK = x_X2MK.masked_fill(~links.neighbor_mask_X2M[..., None], 0)
        x_ZMK = x_X2MK.flatten(0, 1)
        for layer in backbone.embedding_module.mlp_mixers:
            x_ZMK = layer(x_ZMK)
        return x_ZMK.mean(1).view(-1, 2, x_ZMK.shape[-1])

    def _neighbor_features(self, links: LiteralLinks) -> list[Tensor]:
        """f of each neighbour with the source and with the destination."""
        neighbors = links.neighbor_rows_X2MLD
        both = [links.rows_X2LD[:, end, None, None].expand_as(neighbors) for end in (0, 1)]
        return [*self.pair_features(torch.stack([neighbors, neighbors]), torch.stack(both)).unbind(0)]

    def raw_pair_features(self, first_LD: Tensor, second_LD: Tensor) -> Tensor:
        rows = torch.cat([first_LD, second_LD], -2)
        return torch.matmul(rows, rows.transpose(-1, -2)).flatten(-2)

    def pair_features(self, first_LD: Tensor, second_LD: Tensor) -> Tensor:
        raw_P = self.raw_pair_features(first_LD, second_LD)
        return self[0].random_projections.mlp(torch.log(F.relu(raw_P) + 1.0) if self.scale else raw_P)


class _Backbone(nn.Module):
    def __init__(self, sizes: LiteralSizes, dropout: float) -> None:
        super().__init__()
        width, channels = 4 * (sizes.hops + 1) ** 2, sizes.channels
        inputs = sizes.node_width + sizes.time_width + sizes.edge_width
        if sizes.use_memory:
            inputs += 2 * width
            self.random_projections = nn.ModuleDict({"mlp": _mlp(width, 4 * width, width)})
        self.time_encoder = nn.ModuleDict({"w": nn.Linear(1, sizes.time_width)})
        self.embedding_module = nn.ModuleDict(
            {
                "projection_layer": _mlp(inputs, 2 * channels, channels),
                "mlp_mixers": nn.ModuleList(
                    _MixerLayer(sizes.neighbors, channels, dropout) for _ in range(sizes.mixer_layers)
                ),
            }
        )


class _MixerLayer(nn.Module):
    def __init__(self, tokens: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.token_norm, self.channel_norm = nn.LayerNorm(tokens), nn.LayerNorm(channels)
        self.token_feedforward = _feed_forward(tokens, tokens // 2, dropout)
        self.channel_feedforward = _feed_forward(channels, 4 * channels, dropout)

    def forward(self, x_ZMK: Tensor) -> Tensor:
        mixed_ZKM = self.token_feedforward["ffn"](self.token_norm(x_ZMK.transpose(1, 2)))
        x_ZMK = x_ZMK + mixed_ZKM.transpose(1, 2)
        return x_ZMK + self.channel_feedforward["ffn"](self.channel_norm(x_ZMK))


class _Predictor(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(inputs))).squeeze(-1)


def _mlp(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


def _feed_forward(width: int, hidden: int, dropout: float) -> nn.ModuleDict:
    layers = [nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width)]
    return nn.ModuleDict({"ffn": nn.Sequential(*layers, nn.Dropout(dropout))})
