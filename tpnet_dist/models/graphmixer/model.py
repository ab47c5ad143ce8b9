"""GraphMixer: embeddings of the ends of links from their recent interactions and their nodes' features.

    recent interactions → [edge feature, time encoding] → tokens → mixer, mean   the link part
    features of the node and of its neighbours                                   the node part
    both → embedding of an end; two embeddings → logit

An end's embedding does not depend on the other end, so it is computed once however many links it is in.
In profile `published` empty slots take part as tokens and in the mean, and the mean over neighbours' features
is divided by their number once more, as in the released code; in `corrected` neither is so.
"""

import numpy as np
import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import dropout_for
from tpnet_dist.models.common.linear import AlignedLinear, draw_for
from tpnet_dist.models.common.link_model import LinkModel, ModelInputs
from tpnet_dist.models.common.mixer import Mixer
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.link_batch import LinkBatch


class GraphMixer(LinkModel):
    """The whole model on one device."""

    def __init__(self, settings: GraphMixerConfig, inputs: ModelInputs) -> None:
        super().__init__(inputs)
        node_width, edge_width = self.node_width, self.edge_width
        channels, token_width = settings.channels, settings.token_width
        self.dropout, self.leaves_out_empty = settings.dropout, settings.profile == "corrected"
        self.padded_edges = max(edge_width, token_width)
        """Width of edge features with the published code's padding; a checkpoint may have another."""
        self.mean_divisor = settings.time_gap if settings.profile == "published" else 1
        self.time_encoding = FrozenTimeEncoding(settings.time_width)
        self.tokens = AlignedLinear(edge_width + settings.time_width, token_width)
        self.mixer = Mixer(settings.mixer_layers, settings.neighbors, token_width)
        self.output = nn.Linear(token_width + node_width, channels)
        # initial weights as in the published code, where features, absent ones too, are padded
        draw_for(self.tokens, self.padded_edges + settings.time_width)
        draw_for(self.output, token_width + max(node_width, channels))
        self.predictor = LinkPredictor(2 * channels, channels)

    def embed(self, batch: LinkBatch) -> Tensor:
        """Embeddings of all ends: (B, S, K)."""
        shape_BSM = batch.neighbor_mask_BSM.shape
        mask_BSM1 = sent(batch.neighbor_mask_BSM, batch.ends_BS.device)[..., None]
        dropout = dropout_for(batch, self.dropout, training=self.training)
        inputs = [self.time_encoding(batch.elapsed_BSM) * mask_BSM1]
        edge_features = self.edge_features(batch)
        if edge_features is not None:
            inputs.insert(0, edge_features)
        tokens_BSMK, share_MZ = self.tokens(torch.cat(inputs, -1)), None
        if self.leaves_out_empty:
            tokens_BSMK, share_MZ = (
                tokens_BSMK * mask_BSM1,
                _share_of_each(mask_BSM1[..., 0].flatten(0, 1).t()),
            )
        tokens_MZK = tokens_BSMK.flatten(0, 1).transpose(0, 1).contiguous()
        parts = [self.mixer(tokens_MZK, dropout, share_MZ).view(*shape_BSM[:2], -1)]
        node_features = self.node_features(batch)
        if node_features is not None:
            assert batch.neighbor_means_BSF is not None, "means of neighbours' features expected"
            parts.append(node_features[batch.ends_BS] + batch.neighbor_means_BSF / self.mean_divisor)
        embedding_BSK: Tensor = self.output(torch.cat(parts, -1))
        return embedding_BSK


class FrozenTimeEncoding(nn.Module):
    """cos(ω · Δt + b), not trained."""

    frequency: Tensor
    phase: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        frequency = torch.from_numpy(10.0 ** -np.linspace(0, 9, width)).float()
        self.register_buffer("frequency", frequency)
        self.register_buffer("phase", torch.zeros(width))

    def forward(self, elapsed: Tensor) -> Tensor:
        """(…) → (…, width). The product is rounded before the phase is added: at large Δt that matters."""
        return torch.cos(elapsed[..., None].to(self.frequency.dtype) * self.frequency + self.phase)


def _share_of_each(mask_MZ: Tensor) -> Tensor:
    """Return each token's share of the mean over tokens that are there; if none is, all have equal shares."""
    mask_MZ = mask_MZ | ~mask_MZ.any(0)
    return mask_MZ / mask_MZ.sum(0)
