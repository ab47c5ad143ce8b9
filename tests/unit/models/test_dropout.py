"""Dropout follows an event's key: the same for any company, about the asked rate, unlike for other keys."""

from dataclasses import replace

import pytest
import torch

from tests.unit.models.random_queries import random_model, random_query
from tpnet_dist.models.common.dropout import DeviceBytes, EventDropout, HostBytes, event_keys

KEYS = event_keys(0, 0, torch.arange(6))


def test_keys_differ_by_seed_epoch_and_event() -> None:
    keys = [event_keys(seed, epoch, torch.arange(100)) for seed in range(3) for epoch in range(3)]
    assert len(torch.cat(keys).unique()) == 900


@pytest.mark.parametrize("kind", [HostBytes, DeviceBytes])
def test_bytes_of_an_event_do_not_depend_on_its_company(kind: type) -> None:
    together, alone = kind(KEYS), kind(KEYS[4:5])
    for count in (5, 16, 3):
        assert torch.equal(together.draw(count)[4:5], alone.draw(count))


def test_device_bytes_are_those_of_earlier_versions() -> None:
    bytes_of = DeviceBytes(event_keys(3, 1, torch.tensor([7])))
    bytes_of.draw(3)
    assert bytes_of.draw(10).tolist() == [[111, 177, 176, 162, 66, 140, 233, 227, 112, 148]]


@pytest.mark.parametrize("kind", [HostBytes, DeviceBytes])
def test_bytes_are_evenly_spread(kind: type) -> None:
    bytes_of = kind(KEYS)
    drawn = torch.cat([bytes_of.draw(20_001), bytes_of.draw(20_001)], 1).flatten()
    counts = torch.bincount(drawn.int(), minlength=256).double()
    expected = len(drawn) / 256
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # 255 degrees of freedom: mean 255, deviation 22.6
    assert 165 < chi_square < 345


def test_rate_is_the_nearest_multiple_of_one_in_256_and_the_mean_is_kept() -> None:
    dropout = EventDropout(KEYS, 0.1)
    values = torch.ones(50, 6, 1000)
    kept = dropout.add(torch.zeros_like(values), values) * dropout.scale
    assert dropout.scale == 256 / 230
    assert abs(float((kept == 0).float().mean()) - 26 / 256) < 0.003
    assert abs(float(kept.mean()) - 1) < 0.003


def test_masks_of_calls_and_events_differ() -> None:
    dropout = EventDropout(KEYS, 0.5)
    ones = torch.ones(1, 6, 64)
    first, second = (dropout.add(torch.zeros_like(ones), ones) for _ in range(2))
    masks = torch.cat([first[0], second[0]])
    assert len(masks.unique(dim=0)) == 12


def test_same_keys_same_logits_other_keys_other_logits() -> None:
    query, model = random_query(), random_model(dropout=0.2)
    other = replace(query, dropout_keys_B=event_keys(0, 1, torch.arange(len(query))))
    assert torch.equal(model(query), model(query))
    assert not torch.equal(model(query), model(other))
    model.eval()
    assert torch.equal(model(query), model(other))


def test_without_keys_torch_is_asked() -> None:
    query, model = replace(random_query(), dropout_keys_B=None), random_model(dropout=0.2)
    torch.manual_seed(5)
    first, second = model(query), model(query)
    torch.manual_seed(5)
    assert torch.equal(model(query), first)
    assert not torch.equal(first, second)
