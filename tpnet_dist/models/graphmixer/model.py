"""GraphMixer: embeddings of the ends of links from their recent interactions and their nodes' features.

    recent interactions → [edge feature, time encoding] → tokens → mixer, mean   the link part
    features of the node and of its neighbours                                   the node part
    both → embedding of an end; two embeddings → logit

An end's embedding does not depend on the other end, so it is computed once however many links it is in.
In profile `published` empty slots take part as tokens and in the mean, and the mean over neighbours' features
is divided by their number once more, as in the released code; in `corrected` neither is so.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import dropout_for
from tpnet_dist.models.common.linear import AlignedLinear
from tpnet_dist.models.common.mixer import Mixer
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.link_batch import LinkBatch


class GraphMixer(nn.Module):
    """The whole model on one device."""

    def __init__(
        self,
        *,
        neighbors: int = 20,
        node_width: int = 0,
        edge_width: int = 0,
        time_width: int = 100,
        channels: int = 172,
        mixer_layers: int = 2,
        dropout: float = 0.5,
        time_gap: int = 2000,
        profile: Literal["published", "corrected"] = "published",
        bfloat16: bool = False,
    ) -> None:
        super().__init__()
        self.node_width, self.edge_width = node_width, edge_width
        self.dropout, self.in_bfloat16, self.leaves_out_empty = dropout, bfloat16, profile == "corrected"
        self.mean_divisor = time_gap if profile == "published" else 1
        self.time_encoding = FrozenTimeEncoding(time_width)
        self.tokens = AlignedLinear(edge_width + time_width, channels)
        self.mixer = Mixer(mixer_layers, neighbors, channels)
        self.output = nn.Linear(channels + node_width, channels)
        # initial weights as in the published code, where features, absent ones too, are padded to `channels`
        _draw_for(self.tokens, max(edge_width, channels) + time_width)
        _draw_for(self.output, channels + max(node_width, channels))
        self.predictor = LinkPredictor(2 * channels, channels)

    def forward(self, batch: LinkBatch) -> Tensor:
        """Logits of each event's source with each of its destinations: (B, C)."""
        with torch.autocast(batch.ends_BS.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            embedding_BSK = self.embed(batch)
            target_BCK = embedding_BSK[:, 1:]
            logits_BC: Tensor = self.predictor([embedding_BSK[:, :1].expand_as(target_BCK), target_BCK])
        return logits_BC

    def embed(self, batch: LinkBatch) -> Tensor:
        """Embeddings of all ends: (B, S, K)."""
        shape_BSM = batch.neighbor_mask_BSM.shape
        mask_BSM1 = sent(batch.neighbor_mask_BSM, batch.ends_BS.device)[..., None]
        dropout = dropout_for(batch, self.dropout, training=self.training)
        inputs = [self.time_encoding(batch.elapsed_BSM) * mask_BSM1]
        if self.edge_width:
            assert batch.edge_features_BSMF is not None, f"edge features of width {self.edge_width} expected"
            inputs.insert(0, batch.edge_features_BSMF)
        tokens_BSMK, share_MZ = self.tokens(torch.cat(inputs, -1)), None
        if self.leaves_out_empty:
            tokens_BSMK, share_MZ = (
                tokens_BSMK * mask_BSM1,
                _share_of_each(mask_BSM1[..., 0].flatten(0, 1).t()),
            )
        tokens_MZK = tokens_BSMK.flatten(0, 1).transpose(0, 1).contiguous()
        parts = [self.mixer(tokens_MZK, dropout, share_MZ).view(*shape_BSM[:2], -1)]
        if self.node_width:
            parts.append(self._node_part(batch))
        embedding_BSK: Tensor = self.output(torch.cat(parts, -1))
        return embedding_BSK

    def _node_part(self, batch: LinkBatch) -> Tensor:
        features_UF, means_BSF = batch.node_features_UF, batch.neighbor_means_BSF
        assert features_UF is not None, f"node features of width {self.node_width} expected"
        assert means_BSF is not None, "means of neighbours' features expected"
        return features_UF[batch.ends_BS] + means_BSF / self.mean_divisor


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
    """In the mean over those that are there; where none is, all tokens are alike."""
    mask_MZ = mask_MZ | ~mask_MZ.any(0)
    return mask_MZ / mask_MZ.sum(0)


def _draw_for(layer: nn.Linear, fan_in: int) -> None:
    """Torch's initial weights of a layer with so many inputs."""
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))
