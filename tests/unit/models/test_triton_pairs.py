"""Triton's kernel makes the inputs of pair features that torch's operations make, in Triton's interpreter."""

from dataclasses import replace

import pytest
import torch

from tests.support.triton_here import needs_triton
from tests.unit.models.random_queries import random_query
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.pair_list import PairList, pair_inputs
from tpnet_dist.models.tpnet.token_slots import TokenSlots

pytestmark = needs_triton


def by_both(query: LinkBatch, *, scale: bool) -> tuple[torch.Tensor, torch.Tensor]:
    from tpnet_dist.models.tpnet.triton_pairs import pair_inputs_by_triton

    slots = TokenSlots.of(query.neighbor_mask_BSM, mask_empty=False)
    pairs = PairList.of(slots.source_J, slots.target_Y, query.neighbors_BSM.shape)
    return pair_inputs_by_triton(query, pairs, scale=scale), pair_inputs(query, pairs, scale=scale)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("hops", [1, 3, 4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
def test_the_kernel_makes_the_inputs_of_plain_operations(
    scale: bool, hops: int, dtype: torch.dtype, tolerance: float
) -> None:
    found, wanted = by_both(random_query(events=3, hops=hops, dtype=dtype), scale=scale)
    assert (wanted > 0).any()
    assert found.dtype == dtype
    assert ((found - wanted).abs() <= tolerance * wanted.abs().amax(0).clamp(min=1)).all()


def test_no_pair_makes_no_input() -> None:
    found, wanted = by_both(random_query()[3:3], scale=True)
    assert found.shape == wanted.shape == (0, 48)


def test_a_node_paired_with_itself_has_its_own_products_three_times() -> None:
    query = random_query(events=2)
    alone = replace(
        query,
        ends_BS=torch.full_like(query.ends_BS, 5),
        neighbors_BSM=torch.full_like(query.neighbors_BSM, 5),
        end_factors_BSL=torch.ones_like(query.end_factors_BSL),
        neighbor_factors_BSML=torch.ones_like(query.neighbor_factors_BSML),
    )
    found, _ = by_both(alone, scale=False)
    cross, first, second = found.unflatten(1, (3, -1)).unbind(1)
    assert torch.equal(first, second)
    torch.testing.assert_close(cross, first)


def test_products_of_every_size_are_scaled_to_their_last_bits() -> None:
    """From far below what 1 + x can hold to norms of 1e10."""
    query = random_query(events=2)
    assert query.rows_ULD is not None
    for size in (1e-9, 1e-5, 1.0, 1e5):
        rows_ULD = query.rows_ULD * size
        sized = replace(query, rows_ULD=rows_ULD, products_ULL=rows_ULD @ rows_ULD.mT)
        found, wanted = by_both(sized, scale=True)
        assert (wanted > 0).any()
        self_products = wanted[:, 16:] > 0
        torch.testing.assert_close(
            found[:, 16:][self_products], wanted[:, 16:][self_products], rtol=1e-6, atol=0
        )
