"""TGAT: embeddings of the ends of links by attention over their interactions and their neighbours'.

    h⁰ = node features
    hˡ(u, t) = merge[attention of (hˡ⁻¹(u, t), φ(0)) over (hˡ⁻¹(w, t_w), edge, φ(t − t_w)), features of u]
    two embeddings → logit

An end's embedding does not depend on the other end, and a neighbour's only on the time of the interaction, so
each is computed once, in however many links and slots it is.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.linear import draw_for
from tpnet_dist.models.common.link_model import LinkModel, ModelInputs
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.time_encoding import PlainTimeEncoding
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tgat.attention import TemporalAttention
from tpnet_dist.models.tgat.config import TGATConfig
from tpnet_dist.models.tgat.levels import Level, levels_of

Profile = Literal["published", "corrected"]


class TGAT(LinkModel):
    """The whole model on one device."""

    def __init__(self, settings: TGATConfig, inputs: ModelInputs) -> None:
        super().__init__(inputs)
        self.dropout, self.profile = settings.dropout, settings.profile
        self.time_width, self.channels = settings.time_width, settings.channels
        node_width, edge_width, channels = self.node_width, self.edge_width, self.channels
        assert node_width <= channels, (node_width, channels)
        self.padded_edges = max(edge_width, channels)
        """Width of edge features with the published code's padding; a checkpoint may have another."""
        self.time_encoding = PlainTimeEncoding(self.time_width)
        hidden_widths = [node_width, *(channels for _ in range(1, settings.layers))]
        self.blocks = nn.ModuleList(
            TGATLayer(node_width, hidden, edge_width, self.time_width, channels, settings.heads)
            for hidden in hidden_widths
        )
        self.predictor = LinkPredictor(2 * channels, channels)

    def embed(self, batch: LinkBatch) -> Tensor:
        """Embeddings of all ends: (B, S, K)."""
        self._require_features(batch)
        levels = list(levels_of(batch, self.dropout, training=self.training))
        times = [self.time_encoding(level.elapsed_TM) for level in levels]
        now_F = torch.cos(self.time_encoding.phase)
        hidden: list[Tensor | None] = [level.features_TF for level in levels]
        for depth, layer in enumerate(self.blocks, start=1):
            of_neighbors = [level.neighbor_features_TMF for level in levels]
            if depth > 1:
                of_neighbors = [
                    _rows_at(after, level) for level, after in zip(levels, hidden[1:], strict=False)
                ]
            hidden = [
                layer(level, hidden[number], of_neighbors[number], times[number], now_F, self.profile)
                for number, level in enumerate(levels[: len(levels) - depth + 1])
            ]
        embedding_TK = hidden[0]
        assert embedding_TK is not None
        return embedding_TK.view(*batch.ends_BS.shape, embedding_TK.shape[1])

    def _require_features(self, batch: LinkBatch) -> None:
        if self.node_width:
            assert batch.node_features_UF is not None, f"node features of width {self.node_width} expected"
        if self.edge_width:
            assert batch.edge_features_BSMF is not None, f"edge features of width {self.edge_width} expected"


class TGATLayer(nn.Module):
    """Attention, then what it gives merged with the node's own features."""

    def __init__(
        self, node_width: int, hidden_width: int, edge_width: int, time_width: int, channels: int, heads: int
    ) -> None:
        """`hidden_width`: of what is known of nodes from the layer before."""
        super().__init__()
        self.hidden_width, self.channels = hidden_width, channels
        width = channels + time_width
        key_width = hidden_width + edge_width + time_width
        self.attention = TemporalAttention(hidden_width + time_width, key_width, width, heads)
        self.first = nn.Linear(width + node_width, channels)
        self.second = nn.Linear(channels, channels)
        # initial weights as in the published code, where features, absent ones too, are padded to `channels`
        attention, padded_edges = self.attention, max(edge_width, channels)
        draw_for(attention.query, width)
        draw_for(attention.key, width + padded_edges)
        draw_for(attention.value, width + padded_edges)
        draw_for(self.first, width + channels)

    def forward(
        self,
        level: Level,
        hidden_TK: Tensor | None,
        neighbors_TMK: Tensor | None,
        elapsed_TMF: Tensor,
        now_F: Tensor,
        profile: Profile,
    ) -> Tensor:
        num_rows = 1 if hidden_TK is None else len(hidden_TK)
        now_TF = now_F.expand(num_rows, -1)
        query_TI = now_TF if hidden_TK is None else torch.cat([hidden_TK, now_TF], 1)
        missing = self.channels - self.hidden_width
        padded = now_F.new_zeros(num_rows, missing)
        residual_TO = torch.cat([*([] if hidden_TK is None else [hidden_TK]), padded, now_TF], 1)
        keys = [neighbors_TMK, level.edge_features_TMF, elapsed_TMF]
        attended_TO = self.attention(
            query_TI,
            residual_TO,
            [key for key in keys if key is not None],
            level.mask_TM,
            level.dropout,
            skips_nobody=profile == "corrected",
        )
        features = [] if level.features_TF is None else [level.features_TF]
        merged_TK: Tensor = self.second(F.relu(self.first(torch.cat([attended_TO, *features], 1))))
        return merged_TK


def _rows_at(hidden_TK: Tensor | None, level: Level) -> Tensor | None:
    """What stands in the slots of a level, from the level after it: (T, M, K)."""
    rows_TM = level.next_rows_TM
    assert hidden_TK is not None and rows_TM is not None
    return hidden_TK.index_select(0, rows_TM.flatten()).view(*rows_TM.shape, hidden_TK.shape[1])
