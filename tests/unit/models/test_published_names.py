"""Weights survive the way to the published names and back; a checkpoint that does not fit is refused."""

import re
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.models.random_queries import random_model, random_query
from tpnet_dist.models.tpnet.published_names import load_published, published_sizes, to_published

WIDE = {"node_width": 12, "edge_width": 5}


def published(**options: Any) -> dict[str, Tensor]:
    return to_published(random_model(**options), **WIDE)


@pytest.mark.parametrize("widths", [(0, 0), (4, 2), (12, 5)], ids=str)
@pytest.mark.parametrize("use_memory", [True, False])
def test_there_and_back(widths: tuple[int, int], use_memory: bool) -> None:
    options = {"node_width": widths[0], "edge_width": widths[1], "hops": 2, "use_memory": use_memory}
    model, other = random_model(**options), random_model(**options)
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    load_published(other, to_published(model, **WIDE))
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name


def test_sizes_are_read_off_the_weights() -> None:
    sizes = published_sizes(published(hops=2, mixer_layers=3))
    assert asdict(sizes) == {
        "hops": 2,
        "neighbors": 6,
        "node_width": 12,
        "edge_width": 5,
        "time_width": 8,
        "channels": 12,
        "mixer_layers": 3,
        "use_memory": True,
    }


def test_narrow_features_take_the_first_columns() -> None:
    wide, narrow = random_model(edge_width=5), random_model(edge_width=2)
    load_published(narrow, to_published(wide, **WIDE))
    query = random_query(edge_width=2)
    padded = query.__class__(
        **{**vars(query), "edge_features_BSMF": torch.nn.functional.pad(query.edge_features_BSMF, (0, 3))}
    )
    torch.testing.assert_close(narrow(query), wide(padded))


def test_memory_in_a_checkpoint_is_passed_over() -> None:
    state = published()
    state |= {
        "0.random_projections.begging_time": torch.tensor(0.0),
        "0.random_projections.now_time": torch.tensor(0.0),
        "0.random_projections.random_projections.1": torch.zeros(30, 9),
        "1.random_projections.mlp.0.weight": state["0.random_projections.mlp.0.weight"],
    }
    load_published(random_model(), state)


def test_features_wider_than_the_checkpoint_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0 and 6 wide.*at most 12 and 5"):
        load_published(random_model(edge_width=6), published())


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"in the checkpoint, but .* in the model"):
        load_published(random_model(hops=2), published(hops=3))
    with pytest.raises(ValueError, match=r"in the checkpoint, but .* in the model"):
        load_published(random_model(hops=3), published(hops=2))
    with pytest.raises(ValueError, match=r"in the checkpoint, but .* in the model"):
        load_published(random_model(mixer_layers=1), published(mixer_layers=2))


@pytest.mark.parametrize("name", ["0.embedding_module.attention.weight", "epoch"])
def test_unknown_weights_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a weight of the released TPNet"):
        load_published(random_model(), {**published(), name: torch.zeros(1)})


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        ("1.", "1.fc1.weight"),
        ("0.time_encoder", "0.time_encoder.w.weight"),
        ("0.embedding_module.projection_layer", "0.embedding_module.projection_layer.0.weight"),
        ("0.embedding_module.mlp_mixers", "0.embedding_module.mlp_mixers.0.token_norm.weight"),
    ],
)
def test_a_checkpoint_without_a_part_is_refused(part: str, missing: str) -> None:
    rest = {name: tensor for name, tensor in published().items() if not name.startswith(part)}
    with pytest.raises(ValueError, match=f"'{re.escape(missing)}' is missing"):
        load_published(random_model(), rest)
