"""Checkpoints: what is saved is what is loaded, the newest stay, and others' are refused in one sentence."""

from pathlib import Path

import pytest
import torch

from tests.rank_pool import world_of_one
from tpnet_dist.config import TrainingConfig
from tpnet_dist.errors import InputError
from tpnet_dist.model import TPNet
from tpnet_dist.model.published_names import to_published
from tpnet_dist.ranks.world import World
from tpnet_dist.training.checkpoint import CheckpointFolder, Progress, read_state, start_from
from tpnet_dist.training.engine import DdpEngine


def small_model(edge_width: int = 0) -> TPNet:
    return TPNet(neighbors=3, time_width=4, channels=8, mixer_layers=1, edge_width=edge_width)


def folder_at(path: Path, world: World, *, keep: int = 2, log_id: str = "one") -> CheckpointFolder:
    return CheckpointFolder(path, keep=keep, log_id=log_id, world=world)


def engine_of(model: TPNet) -> DdpEngine:
    return DdpEngine(model, learning_rate=1e-3, num_ranks=1)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, TPNet, Progress]:
    model, progress = small_model(), Progress(epoch=1, steps_of_epoch=3, step=8, best_epoch=0, best_ap=0.5)
    with world_of_one() as world:
        engine = engine_of(model)
        engine.learn(sum((weight.sum() for weight in model.parameters()), torch.zeros(())))
        engine.step()
        folder = folder_at(tmp_path, world)
        for progress.step in (4, 6, 8):
            folder.save(model, engine, progress)
        folder.save_best(model, progress)
    return tmp_path, model, progress


def test_the_newest_stay_and_hold_everything(saved: tuple[Path, TPNet, Progress]) -> None:
    path, model, progress = saved
    assert sorted(file.name for file in path.iterdir()) == ["best.pt", "step-00000006.pt", "step-00000008.pt"]
    other = small_model()
    with world_of_one() as world:
        engine = engine_of(other)
        assert folder_at(path, world).load_newest(other, engine) == progress
        assert folder_at(path, world).load_best(small_model()) == 1
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name])
    state = engine.optimizer_state()
    assert list(state) == [name for name, _ in model.named_parameters()]
    assert all(torch.all(kept["exp_avg"] > 0) and kept["step"] == 1 for kept in state.values())


def test_an_empty_folder_has_nothing_to_go_on_from(tmp_path: Path) -> None:
    model = small_model()
    with world_of_one() as world:
        folder = folder_at(tmp_path / "none", world)
        assert folder.load_newest(model, engine_of(model)) is None
        with pytest.raises(InputError, match="there is no such checkpoint; train first"):
            folder.load_best(model)


def test_checkpoints_of_another_log_or_shape_are_refused(saved: tuple[Path, TPNet, Progress]) -> None:
    path, _, _ = saved
    with world_of_one() as world:
        with pytest.raises(InputError, match="made with event log one, the data folder is two"):
            folder_at(path, world, log_id="two").load_best(small_model())
        with pytest.raises(InputError, match=r"token_mlp.first.weight is .* ask for .* features"):
            folder_at(path, world).load_best(small_model(edge_width=5))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "best.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"best.pt: not a readable checkpoint"):
        read_state(tmp_path / "best.pt")


def test_weights_of_the_released_code_are_taken_by_their_names(tmp_path: Path) -> None:
    source, target = small_model(), small_model()
    torch.save(to_published(source, node_width=8, edge_width=8), tmp_path / "theirs.pt")
    start_from(target, read_state(tmp_path / "theirs.pt"), tmp_path / "theirs.pt")
    for name, weight in source.state_dict().items():
        assert torch.equal(weight, target.state_dict()[name])
    torch.save({"nonsense": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other.pt: 'nonsense' is not a weight"):
        start_from(target, read_state(tmp_path / "other.pt"), tmp_path / "other.pt")


@pytest.mark.parametrize("content", [torch.zeros(3), [1], {"model": 3}, {"model": {"a": 1}}, {1: 2}])
def test_files_of_something_else_are_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other.pt: holds .* checkpoint"):
        start_from(small_model(), read_state(tmp_path / "other.pt"), tmp_path / "other.pt")


def test_training_ends_with_epochs_patience_or_steps() -> None:
    config = TrainingConfig(epochs=5, patience=2)
    assert _ends(Progress(epoch=4, best_epoch=4), config)
    assert not _ends(Progress(epoch=3, best_epoch=3), config)
    assert _ends(Progress(epoch=3, best_epoch=1), config)
    assert not _ends(Progress(epoch=3, best_epoch=2), config)
    assert _ends(Progress(epoch=0, best_epoch=0, step=7), TrainingConfig(max_steps=7))


def _ends(progress: Progress, config: TrainingConfig) -> bool:
    progress.end_epoch(config)
    return progress.is_done
