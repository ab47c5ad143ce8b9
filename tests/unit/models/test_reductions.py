"""The model does less work than the published one, and computes the same: logits and every gradient."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from reference.literal_model import LiteralTPNet, literal_links
from tests.unit.models.random_queries import random_model, random_query
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.models.tpnet.published_names import PublishedSizes, published_sizes, to_published

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
PADDED_EDGES = 5
PROFILES = ("paper", "published")


def literal_twin(model: TPNet, *, scale: bool) -> tuple[LiteralTPNet, PublishedSizes]:
    """The literal model with the same weights, all features padded."""
    state = to_published(model, node_width=12, edge_width=PADDED_EDGES)
    sizes = published_sizes(state)
    literal = LiteralTPNet(sizes, mask_empty=model.profile == "paper", scale=scale)
    literal.load_state_dict(state)
    return literal.to(model.token_mlp.first.weight.dtype), sizes


def loss_of(logits_BC: torch.Tensor) -> torch.Tensor:
    labels_BC = torch.zeros_like(logits_BC)
    labels_BC[:, 0] = 1
    return F.binary_cross_entropy_with_logits(logits_BC, labels_BC)


def compare(query: LinkBatch, dtype: torch.dtype, *, scale: bool = True, **options: Any) -> None:
    model = random_model(scale=scale, **options).to(dtype)
    literal, sizes = literal_twin(model, scale=scale)
    logits_BC = model(query)
    targets = range(logits_BC.shape[1])
    literal_BC = torch.stack([literal(literal_links(query, target, sizes)) for target in targets], 1)
    torch.testing.assert_close(logits_BC, literal_BC, rtol=0, atol=TOLERANCE[dtype])

    loss_of(logits_BC).backward()
    loss_of(literal_BC).backward()
    gradients = to_published(
        model,
        node_width=sizes.node_width,
        edge_width=sizes.edge_width,
        tensors={name: parameter.grad for name, parameter in model.named_parameters()},
    )
    for name, parameter in literal.named_parameters():
        torch.testing.assert_close(
            gradients[name], parameter.grad, rtol=1e-5, atol=TOLERANCE[dtype], msg=name
        )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5])
def test_any_number_of_hops(hops: int, profile: str, dtype: torch.dtype) -> None:
    compare(random_query(hops=hops, dtype=dtype), dtype, hops=hops, profile=profile)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("widths", [(0, 1), (3, 0), (12, PADDED_EDGES)], ids=str)
def test_features_of_any_width_or_none(widths: tuple[int, int], profile: str, dtype: torch.dtype) -> None:
    features = {"node_width": widths[0], "edge_width": widths[1]}
    compare(random_query(**features, dtype=dtype), dtype, **features, profile=profile)


@pytest.mark.parametrize("targets", [1, 5])
@pytest.mark.parametrize("profile", PROFILES)
def test_any_number_of_destinations(targets: int, profile: str) -> None:
    compare(random_query(targets=targets, dtype=torch.float64), torch.float64, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_without_scaling(profile: str) -> None:
    compare(random_query(hops=1, dtype=torch.float64), torch.float64, hops=1, scale=False, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_without_memory(profile: str) -> None:
    query = random_query(use_memory=False, edge_width=2, dtype=torch.float64)
    compare(query, torch.float64, use_memory=False, edge_width=2, profile=profile)


def test_what_empty_slots_hold_does_not_matter_in_profile_paper() -> None:
    query, model = random_query(), random_model(profile="paper")
    empty_BSM = ~query.neighbor_mask_BSM
    other = LinkBatch(
        **{
            **vars(query),
            "neighbors_BSM": query.neighbors_BSM.masked_fill(empty_BSM, 17),
            "elapsed_BSM": query.elapsed_BSM.masked_fill(empty_BSM, float("nan")),
        }
    )
    assert torch.equal(model(query), model(other))
    published = random_model(profile="published")
    assert not torch.equal(published(query), published(other))
