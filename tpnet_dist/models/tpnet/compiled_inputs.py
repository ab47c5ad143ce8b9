"""Functions that compiled code does not look into; imported while compiling, for torch's compiler takes
seconds to."""

import torch

from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.gathered import Gathered
from tpnet_dist.models.tpnet.token_slots import TokenSlots


@torch.compiler.disable  # type: ignore[untyped-decorator]
def compiled_inputs(
    query: LinkBatch, *, mask_empty: bool, scale: bool, triton: bool
) -> tuple[TokenSlots, Gathered]:
    """Return slots and what is read for them: how many there are depends on the data, how many rows even
    more."""
    slots = TokenSlots.for_batch(query, mask_empty=mask_empty, padded=True)
    return slots, Gathered.of(query, slots, scale=scale, triton=triton)
