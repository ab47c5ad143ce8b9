"""What two rows say about a pair of nodes: f(a, b).

The text takes all inner products among the 2L rows of a and b, (2L × 2L), and feeds them to an MLP. That
matrix is [self_a, cross; crossᵀ, self_b]. The self-products come with the rows, and the two weight blocks
that meet cross and its transpose are added up before they meet it: 3L² inputs do instead of 4L².

The first layer's share of a self-product could be computed once per slot and added for each pair. It is not:
passing over all pairs' hidden values to add it takes longer than 2L² more inputs of one matrix product.

With several timescales products are taken among layers of one timescale and with layer 0, for each of them,
and the MLP keeps the sizes it has for one: only its inputs grow, by T and not by T². Products across
timescales are left out, unless they are asked for.

Slots come in groups, (groups, first slots) and (groups, second slots), of which all within a group are
paired. I is the inputs, three times as many as there are products of two rows, L² for one timescale. P is the
features, 4(k + 1)².
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.gathered import Gathered
from tpnet_dist.models.tpnet.token_slots import TokenSlots


@dataclass(frozen=True)
class PairInputs:
    """The MLP's inputs for every pair that scoring takes. A neighbour is the first of its pair."""

    source_neighbors_JS: Tensor
    """Neighbours of sources, with the source and with each destination."""
    target_neighbors_Y2: Tensor
    """Neighbours of destinations, with the source and with that destination."""
    links_BC: Tensor
    """The source with each destination."""


@dataclass(frozen=True)
class PairValues:
    """The features of all these pairs."""

    sources_JP: Tensor
    """Features of neighbours of sources with the source."""
    sources_JCP: Tensor
    """Features of neighbours of sources with each destination."""
    targets_Y2P: Tensor
    links_BCP: Tensor


class PairFeatures(nn.Module):
    """MLP on log(1 + ReLU(inner products)); without `scale` on the inner products themselves."""

    kept_A: Tensor | None
    """The positions of those of the L² products of two rows that are taken; None: all."""

    def __init__(
        self, hops: int, *, timescales: int = 1, cross_timescales: bool = False, scale: bool
    ) -> None:
        super().__init__()
        self.layers, self.timescales, self.scale = 1 + hops * timescales, timescales, scale
        self.width = 4 * (hops + 1) ** 2
        has_all = timescales == 1 or cross_timescales
        kept_A = None if has_all else products_within_timescales(hops, timescales)
        self.register_buffer("kept_A", kept_A, persistent=False)
        num_products = self.layers**2 if kept_A is None else len(kept_A)
        self.first = nn.Linear(4 * num_products, 4 * self.width)
        self.second = nn.Linear(4 * self.width, self.width)

    def forward(self, query: LinkBatch, slots: TokenSlots, gathered: Gathered | None = None) -> PairValues:
        """Compute the features of pairs. `gathered`: given on devices and in compiled code, where one matrix
        product serves all pairs."""
        weight = self._folded_weight()
        if gathered is not None:
            return self._at_once(query, slots, gathered, weight)
        inputs = self._inputs(query, slots)
        source_JSP = self._mlp(inputs.source_neighbors_JS, weight)
        return PairValues(
            source_JSP[:, 0],
            source_JSP[:, 1:],
            self._mlp(inputs.target_neighbors_Y2, weight),
            self._mlp(inputs.links_BC, weight),
        )

    def _at_once(
        self, query: LinkBatch, slots: TokenSlots, gathered: Gathered, folded_weight: Tensor
    ) -> PairValues:
        assert gathered.pair_inputs_XI is not None
        B, C, J, Y = len(query), query.ends_BS.shape[1] - 1, len(slots.source_J), len(slots.target_Y)
        inputs_XI = gathered.pair_inputs_XI
        if self.kept_A is not None:
            thirds_XI = inputs_XI.view(len(inputs_XI), 3, -1)
            inputs_XI = thirds_XI.index_select(2, self.kept_A).flatten(1)
        features_XP, P = self._mlp(inputs_XI, folded_weight), self.width
        features = features_XP.split_with_sizes([J, J * C, 2 * Y, B * C])
        return PairValues(
            features[0], features[1].view(J, C, P), features[2].view(Y, 2, P), features[3].view(B, C, P)
        )

    def _mlp(self, inputs_I: Tensor, folded_weight: Tensor) -> Tensor:
        # two axes: changing the result of a layer of three in place makes autograd copy it
        hidden = F.linear(inputs_I.flatten(0, -2), folded_weight, self.first.bias)
        features_P: Tensor = self.second(F.relu_(hidden))
        return features_P.view(*inputs_I.shape[:-1], self.width)

    def _folded_weight(self) -> Tensor:
        """Return the first layer's weight with its columns in the order of `_pair`."""
        if self.kept_A is not None:
            blocks = self.first.weight.view(4 * self.width, 4, -1).unbind(1)
            self_first, cross, mirrored, self_second = blocks
            return torch.cat([cross + mirrored, self_first, self_second], 1)
        L = self.layers
        blocks_H2L2L = self.first.weight.view(-1, 2, L, 2, L)
        blocks = blocks_H2L2L.permute(1, 3, 0, 2, 4).reshape(4, -1, L, L).unbind()
        self_first, cross, mirrored, self_second = blocks
        folded = (cross + mirrored.transpose(1, 2), self_first, self_second)
        return torch.cat([block.flatten(1) for block in folded], 1)

    @torch.no_grad()
    def _inputs(self, query: LinkBatch, slots: TokenSlots) -> PairInputs:
        """Return the MLP's inputs. Nothing here is learnt, so nothing of it is kept for the backward pass;
        norms reach 1e10, so nothing is rounded to bfloat16 either."""
        with torch.autocast(query.ends_BS.device.type, enabled=False):
            return self._pairs(query, slots)

    def _pairs(self, query: LinkBatch, slots: TokenSlots) -> PairInputs:
        ends_BS, neighbors_BSM = _Rows.of_ends(query), _Rows.of_neighbors(query)
        num_events, num_ends = query.ends_BS.shape
        target_C = torch.arange(1, num_ends, device=query.ends_BS.device)
        source_and_target_C2 = torch.stack([torch.zeros_like(target_C), target_C], 1)
        every_B = torch.arange(num_events, device=query.ends_BS.device)
        return PairInputs(
            self._pair(neighbors_BSM[:, 0], ends_BS, slots.source_J),
            self._pair(
                neighbors_BSM[:, 1:].flattened(), ends_BS[:, source_and_target_C2].flattened(), slots.target_Y
            ),
            self._pair(ends_BS[:, :1], ends_BS[:, 1:], every_B),
        )

    def _pair(self, first: "_Rows", second: "_Rows", chosen_A: Tensor) -> Tensor:
        """Return the products cross, self of the first, self of the second, for the chosen first slots: (A,
        second slots, I)."""
        group_A = chosen_A // first.factors_L.shape[1]
        cross = self._scaled(first.cross_products(second).flatten(0, 1)[chosen_A])
        self_first = self._scaled(first.self_products().flatten(0, 1)[chosen_A])
        self_second = self._scaled(second.self_products())[group_A]
        return torch.cat([cross, self_first[:, None].expand_as(cross), self_second], -1)

    def _scaled(self, products_LL: Tensor) -> Tensor:
        """Return the products that are taken, side by side."""
        products = products_LL.flatten(-2)
        if self.kept_A is not None:
            products = products.index_select(-1, self.kept_A)
        return torch.log1p(F.relu(products)) if self.scale else products


def products_within_timescales(hops: int, timescales: int) -> Tensor:
    """Return positions among the L² products of those with layer 0 or between layers of one timescale; layers
    lie as in `memory.walks`."""
    scales = [None, *list(range(timescales)) * hops]
    taken = [one == two or None in (one, two) for one in scales for two in scales]
    # not by nonzero, which the meta device has not
    return torch.tensor([place for place, is_taken in enumerate(taken) if is_taken])


@dataclass(frozen=True)
class _Rows:
    """Rows of slots of any shape, as stored, and the factors that read them."""

    stored_LD: Tensor
    factors_L: Tensor
    products_LL: Tensor

    @classmethod
    def of_ends(cls, query: LinkBatch) -> "_Rows":
        return cls._of(query, query.ends_BS, query.end_factors_BSL)

    @classmethod
    def of_neighbors(cls, query: LinkBatch) -> "_Rows":
        return cls._of(query, query.neighbors_BSM, query.neighbor_factors_BSML)

    @classmethod
    def _of(cls, query: LinkBatch, nodes: Tensor, factors_L: Tensor | None) -> "_Rows":
        assert query.rows_ULD is not None and query.products_ULL is not None and factors_L is not None
        return cls(query.rows_ULD[nodes], factors_L, query.products_ULL[nodes])

    def __getitem__(self, slots: tuple[slice, int | slice | Tensor]) -> "_Rows":
        return _Rows(self.stored_LD[slots], self.factors_L[slots], self.products_LL[slots])

    def flattened(self) -> "_Rows":
        """Return (B, C, …) slots as (B·C, …)."""
        return _Rows(*(tensor.flatten(0, 1) for tensor in vars(self).values()))

    def self_products(self) -> Tensor:
        return self.products_LL * self.factors_L[..., :, None] * self.factors_L[..., None, :]

    def cross_products(self, other: "_Rows") -> Tensor:
        """Return the products of two rows' layers: (groups, first slots, second slots, L, L)."""
        products = torch.einsum("gxld,gykd->gxylk", self.stored_LD, other.stored_LD)
        return products * self.factors_L[:, :, None, :, None] * other.factors_L[:, None, :, None, :]
