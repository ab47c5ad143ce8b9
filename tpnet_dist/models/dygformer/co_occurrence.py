"""How often the node in each place is in the sequences of both ends of a link, and what is made of it.

Counts are small whole numbers. So each number is encoded once, and once for each place within a patch
multiplied by the weights that a patch has for it; a token's part is a sum of rows of that table.

T places of the source, then T of the destination, of Z links; N different counts.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.precision import at_least_float32


def counts_of(node_ZT: Tensor, source_length: int) -> Tensor:
    """How often the node in a place is in the source's sequence, then in the destination's: (Z, T, 2); zero
    where there is none, −1."""
    node_ZT, order_ZT = node_ZT.sort(1)
    differs_ZT = torch.ones_like(node_ZT, dtype=torch.bool)
    torch.ne(node_ZT[:, 1:], node_ZT[:, :-1], out=differs_ZT[:, 1:])
    # the same nodes lie together and have one number
    number_ZT = differs_ZT.cumsum(1) - 1
    of_source_ZT = (order_ZT < source_length).to(torch.int64)
    in_both_ZT2 = []
    for of_side_ZT in (of_source_ZT, 1 - of_source_ZT):
        count_ZT = torch.zeros_like(number_ZT).scatter_add_(1, number_ZT, of_side_ZT)
        sorted_ZT = count_ZT.gather(1, number_ZT).mul_(node_ZT >= 0)
        in_both_ZT2.append(torch.empty_like(sorted_ZT).scatter_(1, order_ZT, sorted_ZT))
    return torch.stack(in_both_ZT2, -1)


class CoOccurrence(nn.Module):
    """Linear → ReLU → linear of each count; what both say is added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(1, width)
        self.second = nn.Linear(width, width)

    def encode(self, count_N: Tensor) -> Tensor:
        """(N, K)."""
        encoded_NK: Tensor = self.second(torch.relu(self.first(count_N[:, None].to(self.first.weight.dtype))))
        return encoded_NK

    def patches(self, counts_ZT2: Tensor, projection: nn.Linear, patch_size: int) -> Tensor:
        """Patches of what counts are encoded to, projected: (Z, patches, K)."""
        num_links, num_places, _ = counts_ZT2.shape
        count_N = torch.arange(num_places + 1, device=counts_ZT2.device)
        weight_KPI = projection.weight.view(len(projection.weight), patch_size, -1)
        encoded_NI = self.encode(count_N)
        table_NPK = torch.einsum("ni,kpi->npk", encoded_NI, weight_KPI.to(encoded_NI.dtype))
        table_K = at_least_float32(table_NPK.flatten(0, 1))
        place_P = torch.arange(patch_size, device=counts_ZT2.device)[:, None]
        rows_ZP = counts_ZT2.view(num_links, -1, patch_size, 2) * patch_size + place_P
        patch_K = F.embedding_bag(rows_ZP.flatten(0, 1).flatten(1), table_K, mode="sum")
        return (patch_K + projection.bias).view(num_links, num_places // patch_size, -1)
