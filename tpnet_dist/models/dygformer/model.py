"""DyGFormer: embeddings of the ends of a link from what both lately met, in one sequence.

    the end itself and its latest interactions → node feature, edge feature, time, co-occurrence
    patches of each of the four, projected side by side → tokens
    tokens of the source, then of the destination → transformer → mean of each side's → two embeddings
    two embeddings → logit

Only co-occurrence depends on the other end; the rest of a token is computed once for each end. Nothing is
computed of places where there is nothing, but that they take part: see `sequences`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import Dropout, dropout_for
from tpnet_dist.models.common.feature_linear import FeatureLinear
from tpnet_dist.models.common.linear import linear
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.link_model import LinkModel, ModelInputs
from tpnet_dist.models.common.precision import in_product_type
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.common.time_encoding import PlainTimeEncoding
from tpnet_dist.models.common.transformer import PreNormBlock
from tpnet_dist.models.dygformer.co_occurrence import CoOccurrence, counts_of
from tpnet_dist.models.dygformer.config import DyGFormerConfig
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
    """Holds the tokens of both sides of Z links."""

    x_ZMK: Tensor
    bias_ZM: Tensor | None
    """−inf for tokens that no other attends to; None: there are none."""
    share_Z2M: Tensor
    """Which part each has in the mean of the source's side, and of the destination's."""


class DyGFormer(LinkModel):
    """The whole model on one device."""

    def __init__(self, settings: DyGFormerConfig, inputs: ModelInputs) -> None:
        super().__init__(inputs)
        self.dropout, self.profile = settings.dropout, settings.profile
        self.patch_size = patch_size = settings.patch_size
        part_channels, times = settings.part_channels, patch_size * settings.time_width
        padded, width = patch_size * settings.channels, 4 * part_channels
        self.time_encoding = PlainTimeEncoding(settings.time_width)
        self.co_occurrence = CoOccurrence(part_channels)
        self.node = FeatureLinear(patch_size * self.node_width, part_channels, padded=padded)
        self.edge = FeatureLinear(patch_size * self.edge_width, part_channels, padded=padded)
        self.time = FeatureLinear(times, part_channels, padded=times)
        self.counts = nn.Linear(patch_size * part_channels, part_channels)
        self.blocks = nn.ModuleList(PreNormBlock(width, settings.heads) for _ in range(settings.layers))
        self.output = nn.Linear(width, settings.channels)
        self.predictor = LinkPredictor(2 * settings.channels, settings.channels)

    def embed(self, batch: LinkBatch) -> LinkEmbeddings:
        """Compute the embeddings of the ends of each link."""
        dropout = dropout_for(batch, self.dropout, training=self.training, events_first=True)
        parts = list(alike(batch, self.patch_size, as_published=self.profile == "published"))
        embedding_BC2K = torch.cat([self._embed(part, dropout) for part in parts], 1)
        if len(parts) > 1:
            targets = torch.tensor([target for part in parts for target in part.targets])
            back = sent(targets.argsort(), embedding_BC2K.device)
            embedding_BC2K = embedding_BC2K.index_select(1, back)
        return LinkEmbeddings(*embedding_BC2K.unbind(2))

    def _embed(self, part: AlikeLinks, dropout: Dropout) -> Tensor:
        """Compute embeddings of both ends of links with sequences of one length: (B, C, 2, K)."""
        tokens = self.tokens(part)
        x_ZMK, bias_ZM = tokens.x_ZMK, tokens.bias_ZM
        for block in self.blocks[:-1]:
            x_ZMK = block(x_ZMK, bias_ZM, dropout)
        last = self.blocks[-1]
        assert isinstance(last, PreNormBlock)
        embedding_Z2K: Tensor = self.output(last.pooled(x_ZMK, bias_ZM, tokens.share_Z2M, dropout))
        return embedding_Z2K.view(len(part.batch), len(part.targets), *embedding_Z2K.shape[1:])

    def tokens(self, part: AlikeLinks) -> Tokens:
        """Make the tokens of the source of each link, then those of its destination."""
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
        node_features, edge_features = self.node_features(batch), self.edge_features(batch)
        if node_features is not None:
            node_features = node_features.index_select(0, ends.node_F)
        if edge_features is not None:
            of_slot_FI = edge_features.flatten(0, 2).index_select(0, ends.slot_F)
            edge_features = of_slot_FI.masked_fill(ends.is_own_F[:, None], 0)
        values = (node_features, edge_features, self.time_encoding(ends.elapsed_F))
        shape = (len(ends), ends.length // self.patch_size, -1)
        parts = []
        for layer, value in zip((self.node, self.edge, self.time), values, strict=True):
            if value is None or layer.weight is None:
                parts.append(layer.bias.expand(*shape))
                continue
            [factor] = in_product_type(value)
            parts.append(linear(ends.placed(factor).view(shape), layer.weight, layer.bias))
        return torch.cat(parts, -1)
