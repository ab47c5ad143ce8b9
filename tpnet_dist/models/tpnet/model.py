"""TPNet: logits of links from the ends' rows and recent neighbours.

    rows → inner products → f(a, b)                                       pair_features
    neighbour slots → node feature, time, edge feature, f, f → tokens     token_slots, token_mlp
    M tokens → mixer, mean → h of one end of a link                       mixer
    h of the source, h of the destination, f(source, destination) → logit

The mixer gets Z = B·2C sequences: for each link one of its source and one of its destination.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import MAX_RATE, dropout_for
from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.common.link_embeddings import LinkEmbeddings
from tpnet_dist.models.common.mixer import Mixer
from tpnet_dist.models.common.predictor import LinkPredictor
from tpnet_dist.models.common.time_encoding import TimeEncoding
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.gathered import Gathered
from tpnet_dist.models.tpnet.pair_features import PairFeatures
from tpnet_dist.models.tpnet.token_mlp import TokenMLP
from tpnet_dist.models.tpnet.token_slots import TokenSlots
from tpnet_dist.spans import relative_encoding

Profile = Literal["paper", "published"]


class TPNet(nn.Module):
    """The whole model on one device.

    Profile `paper` masks empty neighbour slots to zero, `published` does not. Without `use_memory` there are
    neither rows nor pair features; without `scale` pair features are decoded from raw inner products.
    `bfloat16`: matrix products in that, see `precision`; logits are float32 all the same. `triton`: on CUDA
    Triton's kernels where they are.
    """

    def __init__(
        self,
        *,
        hops: int = 3,
        timescales: int = 1,
        cross_timescales: bool = False,
        neighbors: int = 20,
        node_width: int = 0,
        edge_width: int = 0,
        time_width: int = 100,
        channels: int = 172,
        mixer_layers: int = 2,
        dropout: float = 0.1,
        profile: Profile = "paper",
        use_memory: bool = True,
        scale: bool = True,
        bfloat16: bool = False,
        triton: bool = True,
    ) -> None:
        super().__init__()
        _check(hops=hops, neighbors=neighbors, mixer_layers=mixer_layers, dropout=dropout, profile=profile)
        # config
        self.profile, self.dropout, self.in_bfloat16 = profile, dropout, bfloat16
        self.scale, self.uses_triton = scale, triton
        self.node_width, self.edge_width = node_width, edge_width
        # parts
        self.pair_features = (
            PairFeatures(hops, timescales=timescales, cross_timescales=cross_timescales, scale=scale)
            if use_memory
            else None
        )
        pair_width = self.pair_features.width if self.pair_features else 0
        self.time_encoding = TimeEncoding(time_width)
        # initial weights as in the released code, where features, absent ones too, are padded to `channels`
        padded = max(node_width, channels) + time_width + max(edge_width, channels) + 2 * pair_width
        own_width = node_width + time_width + edge_width
        self.token_mlp = TokenMLP(own_width, pair_width, channels, fan_in=padded)
        self.mixer = Mixer(mixer_layers, neighbors, channels)
        self.predictor = LinkPredictor(2 * channels + pair_width, channels)

    def forward(self, query: LinkBatch) -> Tensor:
        """Return the logits of each event's source with each of its destinations: (B, C)."""
        slots, gathered = self._inputs(query)
        with torch.autocast(query.ends_BS.device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            links = self._embed(query, slots, gathered)
            logits_BC: Tensor = self.predictor(links.parts)
        return logits_BC

    def _inputs(
        self, query: LinkBatch, slots: TokenSlots | None = None
    ) -> tuple[TokenSlots, Gathered | None]:
        """Return the slots that are worked on, and what is read by position; on the host forms read as they
        go."""
        mask_empty = self.profile == "paper"
        if torch.compiler.is_compiling():
            from tpnet_dist.models.tpnet.compiled_inputs import compiled_inputs

            found: tuple[TokenSlots, Gathered] = compiled_inputs(
                query, mask_empty=mask_empty, scale=self.scale, triton=self.uses_triton
            )
            return found
        slots = slots or TokenSlots.for_batch(query, mask_empty=mask_empty)
        if serves_host(query.ends_BS):
            return slots, None
        return slots, Gathered.of(query, slots, scale=self.scale, triton=self.uses_triton)

    def embed(self, query: LinkBatch, slots: TokenSlots | None = None) -> LinkEmbeddings:
        """Compute the embeddings of links. `slots`: those of the query, if they are known."""
        return self._embed(query, *self._inputs(query, slots))

    def _embed(self, query: LinkBatch, slots: TokenSlots, gathered: Gathered | None) -> LinkEmbeddings:
        num_events, num_ends = query.ends_BS.shape
        with relative_encoding():
            pairs = self.pair_features(query, slots, gathered) if self.pair_features else None
        of_sources, of_targets = self._own_inputs(query, slots, gathered)
        tokens = self.token_mlp(of_sources, of_targets, pairs, num_ends - 1)
        h_ZK = self.mixer(slots.sequences(tokens), dropout_for(query, self.dropout, training=self.training))
        h_B2CK = h_ZK.view(num_events, 2, num_ends - 1, h_ZK.shape[1])
        return LinkEmbeddings(h_B2CK[:, 0], h_B2CK[:, 1], pairs.links_BCP if pairs else None)

    def _own_inputs(
        self, query: LinkBatch, slots: TokenSlots, gathered: Gathered | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return node feature, time encoding and edge feature of the chosen neighbour slots, of sources and
        of destinations."""
        if gathered is None:
            sources = self._inputs_of(query, slice(0, 1), slots.source_J)
            return sources, self._inputs_of(query, slice(1, None), slots.target_Y)
        inputs = [self.time_encoding(gathered.elapsed_A)]
        if self.node_width:
            assert gathered.node_features_AF is not None, f"node features of width {self.node_width} expected"
            inputs.insert(0, gathered.node_features_AF)
        if self.edge_width:
            assert gathered.edge_features_AF is not None, f"edge features of width {self.edge_width} expected"
            inputs.append(gathered.edge_features_AF)
        split = [each.split_with_sizes([len(slots.source_J), len(slots.target_Y)]) for each in inputs]
        return [sources for sources, _ in split], [targets for _, targets in split]

    def _inputs_of(self, query: LinkBatch, ends: slice, chosen_A: Tensor) -> list[Tensor]:
        inputs = [self.time_encoding(query.elapsed_BSM[:, ends].flatten()[chosen_A])]
        if self.node_width:
            assert query.node_features_UF is not None, f"node features of width {self.node_width} expected"
            inputs.insert(0, query.node_features_UF[query.neighbors_BSM[:, ends].flatten()[chosen_A]])
        if self.edge_width:
            assert query.edge_features_BSMF is not None, f"edge features of width {self.edge_width} expected"
            inputs.append(query.edge_features_BSMF[:, ends].flatten(0, 2)[chosen_A])
        return inputs


def _check(*, hops: int, neighbors: int, mixer_layers: int, dropout: float, profile: str) -> None:
    for name, value, least in (
        ("hops", hops, 1),
        ("neighbors", neighbors, 2),
        ("mixer_layers", mixer_layers, 1),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}, but must be at least {least}; raise it")
    if not 0 <= dropout <= MAX_RATE:
        raise ValueError(f"dropout is {dropout}, but must be within 0 … {MAX_RATE}; 0 drops nothing")
    if profile not in get_args(Profile):
        raise ValueError(f"profile {profile!r} is unknown; choose one of {', '.join(get_args(Profile))}")
