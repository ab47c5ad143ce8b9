"""A query in parts is the same query; a rank's empty slice is a query too."""

import torch

from tests.unit.models.random_queries import random_model, random_query


def test_parts_give_the_logits_of_the_whole_with_dropout_on() -> None:
    query, model = random_query(events=7, edge_width=2), random_model(edge_width=2, dropout=0.3)
    parts_BC = torch.cat([model(query[start : start + 3]) for start in range(0, 7, 3)])
    torch.testing.assert_close(parts_BC, model(query), rtol=0, atol=1e-6)


def test_destinations_in_parts_give_the_logits_of_the_whole() -> None:
    query, model = random_query(events=3, edge_width=2), random_model(edge_width=2).eval()
    num_targets = query.ends_BS.shape[1] - 1
    parts = list(query.split_targets(1))
    assert [part.ends_BS.shape[1] for part in parts] == [2] * num_targets
    whole_BC, parts_BC = model(query), torch.cat([model(part) for part in parts], dim=1)
    torch.testing.assert_close(parts_BC, whole_BC, rtol=0, atol=1e-6)
    assert list(query.split_targets(num_targets)) == [query]


def test_gradients_of_parts_add_up_to_those_of_the_whole() -> None:
    query, model = random_query(events=7), random_model(dropout=0.3)
    model(query).sum().backward()
    whole = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for start in range(0, 7, 2):
        model(query[start : start + 2]).sum().backward()
    for expected, parameter in zip(whole, model.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-5)


def test_empty_slice_has_no_logits_and_zero_gradients() -> None:
    query, model = random_query(events=4, edge_width=2), random_model(edge_width=2, dropout=0.1)
    logits_BC = model(query[4:])
    assert logits_BC.shape == (0, 2)
    logits_BC.sum().backward()
    assert all(torch.count_nonzero(parameter.grad) == 0 for parameter in model.parameters())


def test_events_without_any_neighbour_are_scored() -> None:
    query = random_query(events=3)
    nobody = query.__class__(
        **{**vars(query), "neighbor_mask_BSM": torch.zeros_like(query.neighbor_mask_BSM)}
    )
    for profile in ("paper", "published"):
        assert torch.isfinite(random_model(profile=profile)(nobody)).all()
