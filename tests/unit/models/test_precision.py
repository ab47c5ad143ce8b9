"""Products in bfloat16 change logits a little, but not what is dropped, nor the type of a score."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.unit.models.random_queries import random_model, random_query
from tests.unit.models.small_models import SMALL, batch_for, small
from tpnet_dist.models.common.dropout import EventDropout, event_keys
from tpnet_dist.models.registry import MODELS
from tpnet_dist.models.tpnet.pair_features import PairFeatures
from tpnet_dist.models.tpnet.token_slots import TokenSlots

TOLERANCE = 0.02
"""Logits are about 0.1 here; bfloat16 keeps 8 bits."""
VARIANTS = {
    "paper": {},
    "published": {"profile": "published"},
    "features": {"node_width": 3, "edge_width": 2},
    "no memory": {"use_memory": False, "edge_width": 2},
}


def query_for(options: dict[str, Any]) -> Any:
    return random_query(**{name: value for name, value in options.items() if name != "profile"})


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", VARIANTS.values(), ids=list(VARIANTS))
def test_logits_and_gradients_are_near_those_in_float32(options: dict[str, Any], training: bool) -> None:
    query = query_for(options)
    exact, rounded = (
        random_model(dropout=0.1, bfloat16=bfloat16, **options).train(training) for bfloat16 in (False, True)
    )
    logits, near = exact(query), rounded(query)
    assert near.dtype == torch.float32
    assert not torch.equal(near, logits)
    torch.testing.assert_close(near, logits, rtol=0, atol=TOLERANCE)
    for each in (logits, near):
        each.square().sum().backward()
    wanted, found = (
        torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
        for model in (exact, rounded)
    )
    assert found.dtype == torch.float32
    assert float((found - wanted).norm()) < 0.1 * float(wanted.norm())


def test_no_model_is_missing_here() -> None:
    assert {*SMALL, "tpnet"} == set(MODELS)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_logits_of_models_without_memory_are_near_those_in_float32(name: str, training: bool) -> None:
    batch = batch_for(name)
    exact, rounded = (small(name, bfloat16=each, dropout=0.1).train(training) for each in (False, True))
    logits, near = exact(batch), rounded(batch)
    assert near.dtype == torch.float32
    assert not torch.equal(near, logits)
    torch.testing.assert_close(near, logits, rtol=0, atol=TOLERANCE)
    near.square().sum().backward()
    learning = {
        key for key, weight in rounded.named_parameters() if weight.grad is not None and weight.grad.any()
    }
    # back along walks of one step nothing comes before
    assert {key for key, _ in rounded.named_parameters() if "back_hidden_weight" not in key} <= learning


def test_the_same_is_dropped_in_either_type() -> None:
    keys = event_keys(0, 0, torch.arange(6))
    masks = [
        EventDropout(keys, 0.3).dropped(torch.empty(2, 6, 4, dtype=dtype), 50)
        for dtype in (torch.float32, torch.bfloat16)
    ]
    assert masks[1].dtype == torch.bfloat16
    assert torch.equal(masks[0], masks[1].float())


def test_inner_products_beyond_bfloat16_are_exact() -> None:
    query, features = random_query(), PairFeatures(3, scale=True)
    assert query.rows_ULD is not None and query.products_ULL is not None
    large = replace(query, rows_ULD=query.rows_ULD * 1e5, products_ULL=query.products_ULL * 1e10)
    slots = TokenSlots.of(query.neighbor_mask_BSM, mask_empty=True)
    exact = features._inputs(large, slots)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = features._inputs(large, slots)
    for one, other in zip(vars(exact).values(), vars(under_autocast).values(), strict=True):
        assert torch.equal(one, other)


def test_times_are_not_rounded() -> None:
    """A year and a year and a day are one number in bfloat16."""
    encoding = random_model(bfloat16=True).time_encoding
    times = torch.tensor([365.0, 366.0], dtype=torch.float64) * 86_400
    exact = encoding(times)
    assert not torch.equal(exact[0], exact[1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoding(times), exact)


def test_events_without_any_are_scored_in_bfloat16_too() -> None:
    query, model = random_query(), random_model(dropout=0.1, bfloat16=True)
    logits = model(query[3:3])
    assert logits.shape == (0, 2)
    logits.sum().backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())
