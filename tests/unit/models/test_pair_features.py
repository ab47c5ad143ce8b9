"""Pair features of several timescales: which inner products are taken, and what the MLP makes of them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.unit.models.random_queries import random_model, random_query
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.pair_features import PairFeatures, products_within_timescales
from tpnet_dist.models.tpnet.token_slots import TokenSlots

HOPS = 2


def taken(hops: int, timescales: int) -> list[tuple[int, int]]:
    layers = 1 + hops * timescales
    return [divmod(int(place), layers) for place in products_within_timescales(hops, timescales)]


def test_products_are_taken_within_a_timescale_and_with_layer_0() -> None:
    """Two hops of two timescales: layers 1 and 3 are of the first, 2 and 4 of the second."""
    groups = [(0, 1, 3), (0, 2, 4)]
    assert taken(2, 2) == sorted({(one, two) for group in groups for one in group for two in group})
    assert taken(1, 3) == sorted(
        set().union(*({(0, 0), (0, one), (one, 0), (one, one)} for one in (1, 2, 3)))
    )
    for hops, timescales in ((3, 1), (3, 2), (3, 3), (2, 5)):
        assert len(taken(hops, timescales)) == 1 + timescales * ((hops + 1) ** 2 - 1)


@pytest.mark.parametrize("timescales", [1, 2, 3])
@pytest.mark.parametrize("scale", [True, False])
def test_features_of_links_are_the_texts_for_the_products_that_are_taken(
    timescales: int, scale: bool
) -> None:
    torch.manual_seed(0)
    features = PairFeatures(HOPS, timescales=timescales, scale=scale).double()
    query = random_query(hops=HOPS * timescales, dtype=torch.float64)
    found_BCP = features(query, TokenSlots.of(query.neighbor_mask_BSM, mask_empty=True)).links_BCP
    rows_BSLD = query.rows_ULD[query.ends_BS] * query.end_factors_BSL[..., None]
    for event in range(len(query)):
        for target in range(1, query.ends_BS.shape[1]):
            wanted_P = literal_features(features, rows_BSLD[event, 0], rows_BSLD[event, target])
            torch.testing.assert_close(found_BCP[event, target - 1], wanted_P, rtol=1e-10, atol=1e-12)


def literal_features(features: PairFeatures, first_LD: Tensor, second_LD: Tensor) -> Tensor:
    """The text's matrix of the products of all layers of both rows; with several timescales some are taken,
    block by block: of the first row with itself, with the second, the same mirrored, of the second."""
    rows, L = torch.cat([first_LD, second_LD]), features.layers
    matrix = rows @ rows.t()
    inputs = matrix.flatten()
    if features.timescales > 1:
        pairs = taken(HOPS, features.timescales)
        of_first, crossed = [matrix[i, j] for i, j in pairs], [matrix[i, L + j] for i, j in pairs]
        mirrored, of_second = [matrix[L + j, i] for i, j in pairs], [matrix[L + i, L + j] for i, j in pairs]
        inputs = torch.stack([*of_first, *crossed, *mirrored, *of_second])
    if features.scale:
        inputs = torch.log1p(torch.relu(inputs))
    result: Tensor = features.second(torch.relu(features.first(inputs)))
    return result


def test_the_mlp_grows_with_the_timescales_and_not_with_their_square() -> None:
    one, two, three = (PairFeatures(3, timescales=number, scale=True) for number in (1, 2, 3))
    assert [each.width for each in (one, two, three)] == [64, 64, 64]
    assert [each.first.in_features for each in (one, two, three)] == [64, 124, 184]
    every = PairFeatures(3, timescales=2, cross_timescales=True, scale=True)
    assert every.first.in_features == 4 * 7**2


@pytest.mark.parametrize("cross", [True, False])
def test_scores_depend_on_products_across_timescales_only_where_these_are_taken(cross: bool) -> None:
    """Turning the layers of one timescale leaves their products with one another, but with layer 0 and the
    other timescale it does not; so layer 0 is zero here."""
    model = random_model(hops=3, timescales=2, cross_timescales=cross).eval()
    query = random_query(hops=6)
    rows_ULD = query.rows_ULD.clone()
    rows_ULD[:, 0] = 0
    turned_ULD = rows_ULD.clone()
    turned_ULD[:, 2::2] = turned_ULD[:, 2::2].roll(1, -1)
    logits, of_turned = (model(with_rows(query, rows)) for rows in (rows_ULD, turned_ULD))
    assert torch.allclose(logits, of_turned, atol=1e-5) == (not cross)


def with_rows(query: LinkBatch, rows_ULD: Tensor) -> LinkBatch:
    return replace(query, rows_ULD=rows_ULD, products_ULL=rows_ULD @ rows_ULD.mT)
