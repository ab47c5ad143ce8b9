"""TCL: embeddings of the ends of a link from sequences of interactions that attend to one another.

    the end itself, its interactions → tokens = node + edge feature + time + place
    of each layer, one block:  tokens of a sequence attend to one another
                               then those of the source to those of the destination, and the reverse
    the end's own token → embedding; two embeddings → logit

Up to the first cross attention a source is the same in all links of its event, and computed once. Of the last
one only the ends' own tokens are asked. Empty slots are left out by every attention.
"""

import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import Dropout, dropout_for
from tpnet_dist.models.common.feature_linear import FeatureLinear, sum_of_linear
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.link_model import LinkModel, ModelInputs
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.common.time_encoding import PlainTimeEncoding
from tpnet_dist.models.common.transformer import PostNormBlock
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tcl.config import TCLConfig


class TCL(LinkModel):
    """The whole model on one device."""

    def __init__(self, settings: TCLConfig, inputs: ModelInputs) -> None:
        super().__init__(inputs)
        self.dropout, self.profile, channels = settings.dropout, settings.profile, settings.channels
        self.time_encoding = PlainTimeEncoding(settings.time_width)
        self.places = nn.Parameter(torch.randn(settings.neighbors + 1, channels))
        self.node = FeatureLinear(self.node_width, channels, padded=channels)
        self.edge = FeatureLinear(self.edge_width, channels, padded=channels)
        self.time = FeatureLinear(settings.time_width, channels, padded=settings.time_width)
        self.blocks = nn.ModuleList(PostNormBlock(channels, settings.heads) for _ in range(settings.layers))
        self.output = nn.Linear(channels, channels)
        self.predictor = LinkPredictor(2 * channels, channels)

    def embed(self, batch: LinkBatch) -> LinkEmbeddings:
        """Compute the embeddings of the ends of each link."""
        num_events, num_targets = len(batch), batch.ends_BS.shape[1] - 1
        dropout = dropout_for(batch, self.dropout, training=self.training, events_first=True)
        x_BSMK, left_out_BSM = self._tokens(batch), self._left_out(batch)
        for number, block in enumerate(self.blocks, start=1):
            assert isinstance(block, PostNormBlock)
            x_ZMK, left_out_ZM = x_BSMK.flatten(0, 1), left_out_BSM.flatten(0, 1)
            x_BSMK = block(x_ZMK, left_out_ZM, dropout).view(x_BSMK.shape)
            is_last = number == len(self.blocks)
            x_BSMK = _crossed(
                block, x_BSMK, left_out_BSM, dropout, num_targets=num_targets, own_alone=is_last
            )
            left_out_BSM = _sides(left_out_BSM, num_targets)
        embedding_BSK: Tensor = self.output(x_BSMK[:, :, 0])
        source_and_target = embedding_BSK.view(num_events, 2, num_targets, -1)
        return LinkEmbeddings(*source_and_target.unbind(1))

    def _tokens(self, batch: LinkBatch) -> Tensor:
        """(B, S, 1 + M, K): of each end itself, then of its interactions."""
        own_BS1 = batch.ends_BS[..., None]
        elapsed_BSM = torch.cat([torch.zeros_like(batch.elapsed_BSM[..., :1]), batch.elapsed_BSM], -1)
        node_features, edge_features = self.node_features(batch), self.edge_features(batch)
        if node_features is not None:
            node_features = node_features[torch.cat([own_BS1, batch.neighbors_BSM], -1)]
        if edge_features is not None:
            edge_features = torch.cat([torch.zeros_like(edge_features[:, :, :1]), edge_features], 2)
        inputs = [node_features, edge_features, self.time_encoding(elapsed_BSM)]
        places = self.places if self.profile == "published" else self.places[self._corrected_places(batch)]
        return sum_of_linear([self.node, self.edge, self.time], inputs) + places

    def _corrected_places(self, batch: LinkBatch) -> Tensor:
        """Return places as if the empty slots came after the others: (B, S, 1 + M)."""
        mask_BSM = sent(batch.neighbor_mask_BSM, batch.ends_BS.device)
        place_BSM = mask_BSM.cumsum(-1)
        return torch.cat([torch.zeros_like(place_BSM[..., :1]), place_BSM], -1)

    def _left_out(self, batch: LinkBatch) -> Tensor:
        """−inf for empty slots, 0 for others: (B, S, 1 + M)."""
        mask_BSM = sent(batch.neighbor_mask_BSM, batch.ends_BS.device)
        left_out_BSM = torch.zeros(mask_BSM.shape, device=mask_BSM.device).masked_fill_(
            ~mask_BSM, float("-inf")
        )
        return torch.cat([torch.zeros_like(left_out_BSM[..., :1]), left_out_BSM], -1)


def _crossed(
    block: PostNormBlock,
    x_BSMK: Tensor,
    left_out_BSM: Tensor,
    dropout: Dropout,
    *,
    num_targets: int,
    own_alone: bool,
) -> Tensor:
    """Tokens of both ends of each link, (B, 2C, M, K), once they attended to those of the other end; with
    `own_alone` only those of the ends themselves, (B, 2C, 1, K)."""
    asking_BSMK = x_BSMK[:, :, :1] if own_alone else x_BSMK
    own_BSMK = _sides(asking_BSMK, num_targets)
    query_BSMK = _sides(block.projected(asking_BSMK, queries=True), num_targets)
    others_BSMK = _other_sides(block.projected(x_BSMK, queries=False), num_targets)
    key_BSMK, value_BSMK = others_BSMK.chunk(2, -1)
    tensors = (own_BSMK, query_BSMK, key_BSMK, value_BSMK, _other_sides(left_out_BSM, num_targets))
    own_ZMK, query_ZMK, key_ZMK, value_ZMK, left_out_ZM = (tensor.flatten(0, 1) for tensor in tensors)
    attended_ZMK = block.attention.attend(query_ZMK, key_ZMK, value_ZMK, left_out_ZM, dropout)
    return block.added(own_ZMK, attended_ZMK, dropout).view(own_BSMK.shape)


def _sides(of_ends: Tensor, num_targets: int) -> Tensor:
    """Return the source of each link, then the destination of each: (B, 2C, …).

    Given either of an event's ends, (B, 1 + C, …), or of the sides of its links already.
    """
    if of_ends.shape[1] == 2 * num_targets:
        return of_ends
    sources = of_ends[:, :1].expand(-1, num_targets, *of_ends.shape[2:])
    return torch.cat([sources, of_ends[:, 1:]], 1)


def _other_sides(of_ends: Tensor, num_targets: int) -> Tensor:
    """The same of the other end of each link."""
    if of_ends.shape[1] == 2 * num_targets:
        return of_ends.roll(num_targets, 1)
    sources = of_ends[:, :1].expand(-1, num_targets, *of_ends.shape[2:])
    return torch.cat([of_ends[:, 1:], sources], 1)
