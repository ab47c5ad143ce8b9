"""DyGFormer: embeddings of the ends of a link from what both lately met, in one sequence.

    the end itself and its latest interactions → node feature, edge feature, time, co-occurrence
    patches of each of the four, projected side by side → tokens
    tokens of the source, then of the destination → transformer → mean of each side's → two embeddings
    two embeddings → logit

Only co-occurrence depends on the other end; the rest of a token is computed once for each end. Nothing is
computed of places where there is nothing, but that they take part: see `sequences`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import Dropout, dropout_for
from tpnet_dist.models.common.feature_linear import FeatureLinear
from tpnet_dist.models.common.linear import linear
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.precision import in_product_type
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.common.time_encoding import PlainTimeEncoding
from tpnet_dist.models.common.transformer import PreNormBlock
from tpnet_dist.models.dygformer.co_occurrence import CoOccurrence, counts_of
from tpnet_dist.models.dygformer.sequences import (
    AlikeLinks,
    Sequences,
    alike,
    nodes_of_links,
    of_links,
    sequences_of,
)
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.spans import relative_encoding

_MOST_PLACES = 1 << 17
"""Whose features and times are worked on at once."""


@dataclass(frozen=True)
class Tokens:
    """Of both sides of Z links."""

    x_ZMK: Tensor
    bias_ZM: Tensor | None
    """−inf for tokens that no other attends to; None: there are none."""
    share_Z2M: Tensor
    """Which part each has in the mean of the source's side, and of the destination's."""


class DyGFormer(nn.Module):
    """The whole model on one device."""

    def __init__(
        self,
        *,
        node_width: int = 0,
        edge_width: int = 0,
        time_width: int = 100,
        patch_size: int = 1,
        part_channels: int = 50,
        channels: int = 172,
        layers: int = 2,
        heads: int = 2,
        dropout: float = 0.1,
        profile: Literal["published", "corrected"] = "published",
        bfloat16: bool = False,
    ) -> None:
        super().__init__()
        self.node_width, self.edge_width, self.patch_size = node_width, edge_width, patch_size
        self.dropout, self.profile, self.in_bfloat16 = dropout, profile, bfloat16
        self.time_encoding = PlainTimeEncoding(time_width)
        self.co_occurrence = CoOccurrence(part_channels)
        padded, width = patch_size * channels, 4 * part_channels
        self.node = FeatureLinear(patch_size * node_width, part_channels, padded=padded)
        self.edge = FeatureLinear(patch_size * edge_width, part_channels, padded=padded)
        self.time = FeatureLinear(patch_size * time_width, part_channels, padded=patch_size * time_width)
        self.counts = nn.Linear(patch_size * part_channels, part_channels)
        self.blocks = nn.ModuleList(PreNormBlock(width, heads) for _ in range(layers))
        self.output = nn.Linear(width, channels)
        self.predictor = LinkPredictor(2 * channels, channels)

    def forward(self, batch: LinkBatch) -> Tensor:
        """Logits of each event's source with each of its destinations: (B, C)."""
        with torch.autocast(batch.ends_BS.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            links = self.embed(batch)
            logits_BC: Tensor = self.predictor([links.source_BCK, links.target_BCK])
        return logits_BC

    def embed(self, batch: LinkBatch) -> LinkEmbeddings:
        """Of the ends of each link."""
        dropout = dropout_for(batch, self.dropout, training=self.training, events_first=True)
        parts = list(alike(batch, self.patch_size, as_published=self.profile == "published"))
        embedding_BC2K = torch.cat([self._embed(part, dropout) for part in parts], 1)
        if len(parts) > 1:
            targets = torch.tensor([target for part in parts for target in part.targets])
            back = sent(targets.argsort(), embedding_BC2K.device)
            embedding_BC2K = embedding_BC2K.index_select(1, back)
        return LinkEmbeddings(*embedding_BC2K.unbind(2))

    def _embed(self, part: AlikeLinks, dropout: Dropout) -> Tensor:
        """Of both ends of links whose sequences are alike: (B, C, 2, K)."""
        tokens = self.tokens(part)
        x_ZMK, bias_ZM = tokens.x_ZMK, tokens.bias_ZM
        for block in self.blocks[:-1]:
            x_ZMK = block(x_ZMK, bias_ZM, dropout)
        last = self.blocks[-1]
        assert isinstance(last, PreNormBlock)
        embedding_Z2K: Tensor = self.output(last.pooled(x_ZMK, bias_ZM, tokens.share_Z2M, dropout))
        return embedding_Z2K.view(len(part.batch), len(part.targets), *embedding_Z2K.shape[1:])

    def tokens(self, part: AlikeLinks) -> Tokens:
        """Of the source of each link, then of its destination."""
        batch, num_targets = part.batch, len(part.targets)
        source = sequences_of(batch, slice(0, 1), part.source_length)
        target = sequences_of(batch, slice(1, None), part.target_length)
        own_ZMK = of_links(self._own_parts(batch, source), self._own_parts(batch, target), num_targets)
        with relative_encoding():
            counts_ZT2 = counts_of(nodes_of_links(source, target, num_targets), part.source_length)
            shared_ZMK = self.co_occurrence.patches(counts_ZT2, self.counts, self.patch_size)
        x_ZMK = torch.cat([own_ZMK, shared_ZMK], -1)
        if self.profile == "corrected":
            return self._masked(x_ZMK, source, target, num_targets)
        side_2M = self._side_of_tokens(source, x_ZMK)
        share_2M = sent((side_2M / side_2M.sum(1, keepdim=True)).to(x_ZMK.dtype), x_ZMK.device)
        return Tokens(x_ZMK, None, share_2M.expand(len(x_ZMK), -1, -1))

    def _masked(self, x_ZMK: Tensor, source: Sequences, target: Sequences, num_targets: int) -> Tokens:
        """What holds nothing takes no part."""
        is_there_ZM = of_links(self._is_there(source), self._is_there(target), num_targets)
        bias_ZM = torch.zeros(is_there_ZM.shape).masked_fill_(~is_there_ZM, float("-inf"))
        share_Z2M = self._side_of_tokens(source, x_ZMK) & is_there_ZM[:, None]
        share_Z2M = share_Z2M / share_Z2M.sum(2, keepdim=True)
        device = x_ZMK.device
        return Tokens(x_ZMK, sent(bias_ZM, device), sent(share_Z2M.to(x_ZMK.dtype), device))

    def _side_of_tokens(self, source: Sequences, x_ZMK: Tensor) -> Tensor:
        """Whether each is of the source, and whether it is of the destination: (2, M), on the host."""
        is_source_M = torch.arange(x_ZMK.shape[1]) < source.length // self.patch_size
        return torch.stack([is_source_M, ~is_source_M])

    def _is_there(self, ends: Sequences) -> Tensor:
        """Whether there is anything in a patch: (E, M), on the host."""
        first_M = torch.arange(0, ends.length, self.patch_size)
        return first_M < ends.filled_E[:, None]

    def _own_parts(self, batch: LinkBatch, ends: Sequences) -> Tensor:
        """What does not depend on the other end, node feature, edge feature, time: (E, M, 3K)."""
        pieces = [self._projected(batch, piece) for piece in ends.pieces(_MOST_PLACES)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _projected(self, batch: LinkBatch, ends: Sequences) -> Tensor:
        values: list[Tensor | None] = [None, None, self.time_encoding(ends.elapsed_F)]
        if self.node_width:
            assert batch.node_features_UF is not None, f"node features of width {self.node_width} expected"
            values[0] = batch.node_features_UF.index_select(0, ends.node_F)
        if self.edge_width:
            features = batch.edge_features_BSMF
            assert features is not None, f"edge features of width {self.edge_width} expected"
            of_slot_FI = features.flatten(0, 2).index_select(0, ends.slot_F)
            values[1] = of_slot_FI.masked_fill(ends.is_own_F[:, None], 0)
        shape = (len(ends), ends.length // self.patch_size, -1)
        parts = []
        for layer, value in zip((self.node, self.edge, self.time), values, strict=True):
            if value is None or layer.weight is None:
                parts.append(layer.bias.expand(*shape))
                continue
            [factor] = in_product_type(value)
            parts.append(linear(ends.placed(factor).view(shape), layer.weight, layer.bias))
        return torch.cat(parts, -1)
