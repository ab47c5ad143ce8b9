"""CAWN: embeddings of the ends of a link from walks back in time, seen by both ends.

    how often walks of either end pass a node at each hop → its position, the same for both ends
    [node feature, time encoding, edge feature, position] along a walk → LSTM, position along it → LSTM
    both → a token for each walk → attention among the walks of an end → mean → embedding of the end
    two embeddings → logit

Positions depend on both ends, so each link has embeddings of its own. What recurs in the walks of an end,
since interactions are drawn with replacement, goes through the LSTMs once.
"""

import torch
from torch import Tensor, nn

from tpnet_dist.models.cawn.config import CAWNConfig
from tpnet_dist.models.cawn.trees import (
    Landings,
    Sides,
    Tokens,
    TreeHop,
    landings_of,
    num_codes,
    probabilities_of,
    tokens_of,
    trees_of,
)
from tpnet_dist.models.cawn.walk_lstm import WalkLSTM
from tpnet_dist.models.common.dropout import dropout_for
from tpnet_dist.models.common.linear import AlignedLinear
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.link_model import LinkModel, ModelInputs
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.common.time_encoding import PlainTimeEncoding
from tpnet_dist.models.common.transformer import PostNormBlock
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.spans import relative_encoding

_MOST_CODES = 4096
"""Up to so many are all encoded, also those that do not occur: a GPU would be waited for to say which do."""


class CAWN(LinkModel):
    """The whole model on one device."""

    def __init__(self, settings: CAWNConfig, inputs: ModelInputs) -> None:
        super().__init__(inputs)
        self.dropout, self.profile, channels = settings.dropout, settings.profile, settings.channels
        self.time_width, self.position_width = settings.time_width, settings.position_width
        self.padded_nodes = max(self.node_width, channels)
        self.padded_edges = max(self.edge_width, settings.edge_channels)
        position_width, both_widths = self.position_width, self.time_width + self.position_width
        self.time_encoding = PlainTimeEncoding(self.time_width)
        self.positions = PositionEncoding(settings.neighbors, settings.walk_length, position_width)
        # widths as in the published code, where features, absent ones too, are padded
        features = self.padded_nodes + self.padded_edges + both_widths
        self.feature_walks = WalkLSTM(self.node_width + self.edge_width + both_widths, features // 2)
        self.position_walks = WalkLSTM(position_width, position_width // 2)
        width = -(-(features // 2) // settings.heads) * settings.heads
        self.tokens = AlignedLinear(2 * (features // 2) + 2 * (position_width // 2), width)
        self.block = PostNormBlock(width, settings.heads)
        self.output = nn.Linear(width, channels)
        self.predictor = LinkPredictor(2 * channels, channels)

    def embed(self, batch: LinkBatch) -> LinkEmbeddings:
        """Compute the embeddings of the ends of each link."""
        num_events, num_ends = batch.ends_BS.shape
        trees, sides = trees_of(batch), Sides.of(num_events, num_ends)
        tokens = tokens_of(trees, sides)
        token_TK = self.tokens(self._walked(batch, trees, sides, tokens))
        of_walk_ZM = tokens[-1].of_slot_ZM
        walk_ZMK = token_TK.index_select(0, _on(batch, of_walk_ZM.flatten())).unflatten(0, of_walk_ZM.shape)
        taken_ZM = self._taken(trees, sides, of_walk_ZM)
        bias_ZM = None if taken_ZM is None else _on(batch, torch.where(taken_ZM, 0.0, float("-inf")))
        dropout = dropout_for(batch, self.dropout, training=self.training, events_first=True)
        walk_ZMK = self.block(walk_ZMK, bias_ZM, dropout)
        if taken_ZM is None:
            mean_ZK = walk_ZMK.mean(1)
        else:
            share_ZM = taken_ZM / taken_ZM.sum(1, keepdim=True)
            mean_ZK = (walk_ZMK * _on(batch, share_ZM)[..., None].to(walk_ZMK.dtype)).sum(1)
        embedding_BSK = self.output(mean_ZK).unflatten(0, (num_events, 2, num_ends - 1))
        return LinkEmbeddings(*embedding_BSK.unbind(1))

    def _walked(self, batch: LinkBatch, trees: list[TreeHop], sides: Sides, tokens: list[Tokens]) -> Tensor:
        """Return what both LSTMs make of the walks that end with each token."""
        with relative_encoding():
            position_of = self.positions(landings_of(trees, sides))
        lstms, walked = (self.feature_walks, self.position_walks), list[Tensor]()
        before: list[tuple[Tensor, Tensor]] = []
        for hop, of_hop, landings in zip(trees, tokens, position_of.landings, strict=True):
            with relative_encoding():
                position_TK = position_of(landings, _on(batch, of_hop.side_T), _on(batch, of_hop.slot_T))
            features_TI = self._features(batch, hop, sides, of_hop, position_TK)
            parent_T, after = _on(batch, of_hop.parent_T), list[tuple[Tensor, Tensor]]()
            outs = []
            for number, (lstm, x_TI) in enumerate(zip(lstms, (features_TI, position_TK), strict=True)):
                carried = [each.index_select(0, parent_T) for each in before[number]] if before else []
                out_TH, cell_TH = lstm.step(x_TI, *carried)
                outs.append(out_TH)
                if hop is not trees[-1]:
                    after.append((lstm.recurrent(out_TH[:, : lstm.hidden]), cell_TH))
            walked.append(torch.cat(outs, 1))
            before = after
        return torch.cat(walked)

    def _features(
        self, batch: LinkBatch, hop: TreeHop, sides: Sides, tokens: Tokens, position_TK: Tensor
    ) -> Tensor:
        """Return [node feature, time encoding, edge feature, position] of each token."""
        end_T, slot_T = _on(batch, sides.end_Z[tokens.side_T]), _on(batch, tokens.slot_T)
        parts = [self.time_encoding(hop.elapsed_EM[end_T, slot_T]), position_TK]
        if self.edge_width:
            edges = hop.edge_features_EMF
            no_interaction = parts[0].new_zeros(1, self.edge_width).expand(len(end_T), -1)
            parts.insert(1, no_interaction if edges is None else edges[end_T, slot_T])
        node_features = self.node_features(batch)
        if node_features is not None:
            parts.insert(0, node_features[hop.place_EM[end_T, slot_T]])
        return torch.cat(parts, 1)

    def _taken(self, trees: list[TreeHop], sides: Sides, of_walk_ZM: Tensor) -> Tensor | None:
        """Return which walks take part; None: all. In profile `corrected` those that left the end, or the
        first of an end that met nobody."""
        if self.profile == "published":
            return None
        left_ZM = of_walk_ZM >= len(sides.end_Z)
        left_ZM[:, 0] |= ~left_ZM.any(1)
        return left_ZM


class PositionEncoding(nn.Module):
    """Linear → ReLU → linear of how often walks of one end pass; what both ends say is added."""

    def __init__(self, neighbors: int, walk_length: int, width: int) -> None:
        super().__init__()
        self.neighbors, self.walk_length = neighbors, walk_length
        self.first = nn.Linear(walk_length + 1, width)
        self.second = nn.Linear(width, width)

    def encode(self, probability_P: Tensor) -> Tensor:
        encoded_K: Tensor = self.second(torch.relu(self.first(probability_P.to(self.first.weight.dtype))))
        return encoded_K

    def forward(self, landings: list[Landings]) -> "Positions":
        """Encode each distinct code once."""
        count = num_codes(self.neighbors, self.walk_length)
        codes = [code_ZM for each in landings for code_ZM in (each.own_ZM, each.other_ZM)]
        if count <= _MOST_CODES:
            code_U, places = torch.arange(count, device=codes[0].device), codes
        else:
            flat = torch.cat([code_ZM.flatten() for code_ZM in codes])
            code_U, place = torch.unique(flat, return_inverse=True)
            parts = place.split_with_sizes([code_ZM.numel() for code_ZM in codes])
            places = [part.view(code_ZM.shape) for part, code_ZM in zip(parts, codes, strict=True)]
        table_UK = self.encode(probabilities_of(code_U, self.neighbors, self.walk_length))
        return Positions(
            table_UK, [Landings(own, other) for own, other in zip(places[::2], places[1::2], strict=True)]
        )


class Positions:
    """The positions that occur, and where in the table each is."""

    def __init__(self, table_UK: Tensor, landings: list[Landings]) -> None:
        self.table_UK, self.landings = table_UK, landings

    def __call__(self, landings: Landings, side_T: Tensor, slot_T: Tensor) -> Tensor:
        both_T2 = [place_ZM[side_T, slot_T] for place_ZM in (landings.own_ZM, landings.other_ZM)]
        own_TK, other_TK = (self.table_UK.index_select(0, place_T) for place_T in both_T2)
        return own_TK + other_TK


def _on(batch: LinkBatch, tensor: Tensor) -> Tensor:
    return sent(tensor, batch.ends_BS.device)
