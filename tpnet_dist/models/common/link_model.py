"""What models without memory share: they embed the ends of links, and a predictor takes both of a link."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.link_batch import LinkBatch


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """What a model is built for, beside its own settings."""

    node_width: int = 0
    """Width of node features; 0: there are none."""
    edge_width: int = 0
    """Width of edge features; 0: there are none."""
    bfloat16: bool = False
    """Whether matrix products are in that, see `precision`; logits are float32 all the same."""

    @classmethod
    def of(cls, config: Config, log: LogShape) -> "ModelInputs":
        bfloat16 = config.training.precision == "bfloat16"
        return cls(node_width=log.node_width, edge_width=log.edge_width, bfloat16=bfloat16)


class LinkModel(nn.Module):
    """A whole model on one device. Each makes its `predictor` last: initial weights are drawn in order."""

    predictor: LinkPredictor

    def __init__(self, inputs: ModelInputs) -> None:
        super().__init__()
        self.node_width, self.edge_width = inputs.node_width, inputs.edge_width
        self.in_bfloat16 = inputs.bfloat16

    def forward(self, batch: LinkBatch) -> Tensor:
        """Return the logits of each event's source with each of its destinations: (B, C)."""
        with torch.autocast(batch.ends_BS.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            embedded = self.embed(batch)
            links = LinkEmbeddings.of_ends(embedded) if isinstance(embedded, Tensor) else embedded
            logits_BC: Tensor = self.predictor(links.parts)
        return logits_BC

    def embed(self, batch: LinkBatch) -> Tensor | LinkEmbeddings:
        """Compute the embeddings of all ends, (B, S, K), or those of the ends of each link."""
        raise NotImplementedError

    def node_features(self, batch: LinkBatch) -> Tensor | None:
        """Return features of the batch's nodes, (U, F); None: the log has none."""
        if not self.node_width:
            return None
        assert batch.node_features_UF is not None, f"node features of width {self.node_width} expected"
        return batch.node_features_UF

    def edge_features(self, batch: LinkBatch) -> Tensor | None:
        """Return features of the ends' interactions, (B, S, M, F); None: the log has none."""
        if not self.edge_width:
            return None
        assert batch.edge_features_BSMF is not None, f"edge features of width {self.edge_width} expected"
        return batch.edge_features_BSMF
