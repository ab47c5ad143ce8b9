"""Slots for compiled code. A module of its own, imported while something is compiled: the decorator takes
seconds to import."""

import torch

from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.token_slots import TokenSlots


@torch.compiler.disable  # type: ignore[untyped-decorator]  # numbers of slots depend on the data
def compiled_slots(query: LinkBatch, *, mask_empty: bool) -> TokenSlots:
    return TokenSlots.for_batch(query, mask_empty=mask_empty, padded=True)
