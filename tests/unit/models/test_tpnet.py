"""Settings that make no model are refused; initial weights are those of the published model."""

import math
from typing import Any

import pytest
import torch

from tpnet_dist.models.common.time_encoding import TimeEncoding
from tpnet_dist.models.tpnet.model import TPNet


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, "hops is 0, but must be at least 1"),
        ({"neighbors": 1}, "neighbors is 1, but must be at least 2"),
        ({"mixer_layers": 0}, "mixer_layers is 0"),
        ({"dropout": 1.0}, r"dropout is 1\.0, but must be within 0"),
        ({"profile": "text"}, "choose one of paper, published"),
    ],
)
def test_settings_that_make_no_model_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TPNet(**options)


def test_initial_token_weights_count_absent_features() -> None:
    weight = TPNet().token_mlp.first.weight.detach()
    bound = 1 / math.sqrt(172 + 100 + 172 + 64 + 64)
    assert weight.shape == (344, 100 + 64 + 64)
    assert 0.99 * bound < float(weight.abs().max()) <= bound


def test_time_encoding_is_a_cosine_of_the_logarithm() -> None:
    encoding = TimeEncoding(3)
    torch.testing.assert_close(encoding.frequency.detach(), torch.tensor([1.0, 10**-4.5, 1e-9]))
    elapsed = torch.tensor([[0.0, 5.0], [7.0, 1e6]])
    expected = torch.cos(torch.log(elapsed + 1)[..., None] * encoding.frequency)
    torch.testing.assert_close(encoding(elapsed), expected)
