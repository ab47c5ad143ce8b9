"""Weights in a single file: those of the released code are taken, anything else is named and refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.checkpoints import small_model
from tests.support.full_disk import no_file_larger_than
from tests.support.sentences import refused
from tpnet_dist.models.registry import spec_named
from tpnet_dist.models.tpnet.published_names import to_published
from tpnet_dist.training.weights_file import read_state, start_from, write_state


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "best.pt").write_bytes(b"not a checkpoint")
    with refused():
        read_state(tmp_path / "best.pt")


def test_weights_of_the_released_code_are_taken_by_their_names(tmp_path: Path) -> None:
    source, target = small_model(), small_model()
    torch.save(to_published(source, node_width=8, edge_width=8), tmp_path / "theirs.pt")
    start_from(target, spec_named("tpnet"), read_state(tmp_path / "theirs.pt"), tmp_path / "theirs.pt")
    for name, weight in source.state_dict().items():
        assert torch.equal(weight, target.state_dict()[name])
    torch.save({"nonsense": torch.zeros(1)}, tmp_path / "other.pt")
    with refused():
        start_from(target, spec_named("tpnet"), read_state(tmp_path / "other.pt"), tmp_path / "other.pt")


@pytest.mark.parametrize("content", [torch.zeros(3), [1], {"model": 3}, {"model": {"a": 1}}, {1: 2}])
def test_files_of_something_else_are_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "other.pt")
    with refused():
        start_from(
            small_model(), spec_named("tpnet"), read_state(tmp_path / "other.pt"), tmp_path / "other.pt"
        )


@pytest.mark.parametrize("count", [10, 100_000])
def test_a_full_disk_is_named_with_the_file_and_keeps_the_old_one(tmp_path: Path, count: int) -> None:
    path = tmp_path / "weights.pt"
    write_state(path, {"before": torch.zeros(2)})
    before = path.read_bytes()
    with no_file_larger_than(1000), pytest.raises(OSError) as error:
        write_state(path, {"weights": torch.zeros(count)})
    assert error.value.filename == str(path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


@pytest.mark.parametrize(
    ("strange", "seal"),
    [
        (lambda weight: weight.int(), {}),
        (lambda weight: weight + 0j, {}),
        (lambda weight: None, {}),
        (lambda weight: weight.to_sparse(), {}),
        (lambda weight: weight.to_sparse(), {"sha256": "0"}),
    ],
    ids=["whole numbers", "complex", "none", "sparse", "sparse and sealed"],
)
def test_weights_of_another_kind_are_refused(tmp_path: Path, strange: Any, seal: dict[str, str]) -> None:
    model, path = small_model(), tmp_path / "best.pt"
    weights = {**model.state_dict(), "predictor.second.bias": strange(model.predictor.second.bias.detach())}
    torch.save({"model": weights, **seal}, path)
    with refused():
        start_from(model, spec_named("tpnet"), read_state(path), path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", torch.ones(2)),
        ("format", 2),
        ("epoch", "x"),
        ("epoch", -1),
        ("val_ap", float("nan")),
        ("model", None),
        ("model", {1: torch.ones(2)}),
    ],
)
def test_facts_that_no_run_writes_are_refused(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "best.pt"
    write_state(path, {"model": {}, name: value})
    with refused():
        read_state(path)
