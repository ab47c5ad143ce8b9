"""Checkpoints: what is saved is what is loaded, the newest stay, and others' are refused in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.checkpoints import engine_of, folder_at, small_model
from tests.support.full_disk import no_file_larger_than
from tests.support.sentences import refused
from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.weights_file import read_state


def test_the_newest_stay_and_hold_everything(saved: tuple[Path, TPNet, Progress]) -> None:
    path, model, progress = saved
    assert sorted(file.name for file in path.iterdir()) == ["best.pt", "step-00000006", "step-00000008"]
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


def test_after_validation_a_checkpoint_has_another_name_and_comes_later(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    path, model, progress = saved
    with world_of_one() as world:
        progress.end_epoch(TrainingConfig())
        folder_at(path, world).save(engine_of(model), progress)
        assert sorted(step.name for step in path.glob("step-*")) == ["step-00000008", "step-00000008-epoch-2"]
        assert folder_at(path, world).load_newest(small_model(), engine_of(small_model())) == progress


def test_the_best_weights_describe_themselves(saved: tuple[Path, TPNet, Progress]) -> None:
    path, _, _ = saved
    state = read_state(path / "best.pt")
    assert {**state, "model": None} == {
        "format": 1,
        "model": None,
        "epoch": 1,
        "val_ap": 0.5,
        "seed": 3,
        "log_id": "one",
        "config": {"memory.width": None, "training.seeds": (0, 3)},
    }


def test_best_weights_that_no_checkpoint_tells_of_are_the_ones_to_surpass(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    """Killed after they were replaced, before the checkpoint of their epoch."""
    path, model, progress = saved
    with world_of_one() as world:
        folder = folder_at(path, world)
        folder.save_best(model, replace(progress, epoch=6, best_epoch=6, best_ap=0.75))
        resumed = folder.load_newest(small_model(), engine_of(small_model()))
    assert resumed == replace(progress, best_epoch=6, best_ap=0.75)


def test_best_weights_of_an_earlier_version_leave_the_checkpoint_its_word(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    path, _, progress = saved
    state = read_state(path / "best.pt")
    del state["val_ap"]
    torch.save(state, path / "best.pt")
    with world_of_one() as world:
        resumed = folder_at(path, world).load_newest(small_model(), engine_of(small_model()))
    assert resumed == progress


def test_checkpoints_of_the_earlier_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "step-00000004.pt").write_bytes(b"")
    with world_of_one() as world, refused():
        folder_at(tmp_path, world).load_newest(small_model(), engine_of(small_model()))


def test_an_empty_folder_has_nothing_to_go_on_from(tmp_path: Path) -> None:
    model = small_model()
    with world_of_one() as world:
        folder = folder_at(tmp_path / "none", world)
        assert folder.load_newest(model, engine_of(model)) is None
        with refused():
            folder.load_best(model)


def test_checkpoints_of_another_log_or_shape_are_refused(saved: tuple[Path, TPNet, Progress]) -> None:
    path, _, _ = saved
    with world_of_one() as world:
        with refused():
            folder_at(path, world, log_id="two").load_best(small_model())
        with refused():
            folder_at(path, world).load_best(small_model(edge_width=5))


@pytest.mark.parametrize("left", [["format"], ["epoch", "log_id"], ["model"]])
def test_a_best_file_that_no_run_wrote_is_refused(
    saved: tuple[Path, TPNet, Progress], left: list[str]
) -> None:
    path, model, _ = saved
    state = read_state(path / "best.pt")
    torch.save({key: value for key, value in state.items() if key not in left}, path / "best.pt")
    with (
        world_of_one() as world,
        refused(),
    ):
        folder_at(path, world).load_best(model)


def test_a_full_disk_leaves_what_was_saved_before_and_is_one_sentence(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    folder, model, progress = saved
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with world_of_one() as world, no_file_larger_than(1000):
        checkpoints = folder_at(folder, world)
        with pytest.raises(OSError) as error:
            checkpoints.save_best(model, progress)
        assert error.value.filename == str(folder / "best.pt")
        progress.step += 1
        with refused(varies=r"step-\S+: rank 0 cannot write it: .*(?=; free)"):
            checkpoints.save(engine_of(model), progress)
        assert checkpoints.load_newest(model, engine_of(model)) is not None
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
