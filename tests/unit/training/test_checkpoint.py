"""Checkpoints: what is saved is what is loaded, the newest stay, and others' are refused in one sentence."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata

from tests.forged_steps import Evil, forge, metadata_of
from tests.rank_pool import world_of_one
from tpnet_dist.config import TrainingConfig
from tpnet_dist.errors import InputError
from tpnet_dist.model import TPNet
from tpnet_dist.model.published_names import to_published
from tpnet_dist.ranks.world import World
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts
from tpnet_dist.training.display import Display
from tpnet_dist.training.engine import DdpEngine
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.weights_file import read_state, start_from


def small_model(edge_width: int = 0) -> TPNet:
    return TPNet(neighbors=3, time_width=4, channels=8, mixer_layers=1, edge_width=edge_width)


class Heard(Display):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def folder_at(
    path: Path, world: World, *, keep: int = 2, log_id: str = "one", display: Display | None = None
) -> CheckpointFolder:
    facts = RunFacts(3, log_id, {"memory.width": None, "training.seeds": (0, 3)})
    return CheckpointFolder(path, keep=keep, run=facts, world=world, display=display)


def engine_of(model: TPNet) -> DdpEngine:
    return DdpEngine(model, learning_rate=1e-3, num_ranks=1)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, TPNet, Progress]:
    model, progress = small_model(), Progress(epoch=1, steps_of_epoch=3, step=8, best_epoch=1, best_ap=0.5)
    with world_of_one() as world:
        engine = engine_of(model)
        engine.learn(sum((weight.sum() for weight in model.parameters()), torch.zeros(())))
        engine.step()
        folder = folder_at(tmp_path, world)
        folder.save_best(model, progress)
        for progress.step in (4, 6, 8):
            folder.save(engine, progress)
    return tmp_path, model, progress


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


def cut(step: Path) -> None:
    [data] = step.glob("*.distcp")
    data.write_bytes(data.read_bytes()[:-10])


def flip(step: Path) -> None:
    [data] = step.glob("*.distcp")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)


DAMAGES = {
    "cut": (cut, r"__0_0.distcp is damaged"),
    "one bit": (flip, r"__0_0.distcp is damaged"),
    "lost file": (lambda step: (step / ".metadata").unlink(), r".metadata is missing"),
    "lost manifest": (lambda step: (step / "manifest.json").unlink(), r"manifest.json is missing"),
    "half a manifest": (
        lambda step: (step / "manifest.json").write_text('{"format": 1, "fil'),
        r"manifest.json is not readable",
    ),
    "later format": (
        lambda step: (step / "manifest.json").write_text('{"format": 2}'),
        r"it has format 2, and this version reads 1",
    ),
}


def test_steps_that_could_not_be_read_do_not_crowd_out_new_ones(saved: tuple[Path, TPNet, Progress]) -> None:
    path, model, progress = saved
    with world_of_one() as world:
        folder, engine = folder_at(path, world), engine_of(model)
        (path / "best.pt").unlink()
        assert folder.load_newest(model, engine) is None
        for progress.step in (1, 2):
            folder.save(engine, progress)
            assert path / f"step-0000000{progress.step}" in path.iterdir()
        assert sorted(step.name for step in path.glob("step-*")) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_an_older_one_is_taken(
    saved: tuple[Path, TPNet, Progress], damage: str
) -> None:
    path, model, _ = saved
    harm, reason = DAMAGES[damage]
    harm(path / "step-00000008")
    heard = Heard()
    with world_of_one() as world:
        folder, other = folder_at(path, world, display=heard), small_model()
        progress = folder.load_newest(other, engine_of(other))
        assert progress is not None and progress.step == 6
        assert heard.lines == [f"warning: {path}/step-00000008: this checkpoint is left out: {reason}"]
        # training comes to that step again
        progress.step = 8
        folder.save(engine_of(model), progress)
        assert folder.load_newest(other, engine_of(other)) == progress
    assert len(heard.lines) == 1


def unknown_class(mark: Path, step: Path) -> Any:
    return Evil(mark)


def hidden_in_a_description(mark: Path, step: Path) -> Any:
    metadata = metadata_of(step)
    metadata.planner_data = {"a": Evil(mark)}
    return metadata


def pickled_entry_by_the_name_of_a_tensor(mark: Path, step: Path) -> Any:
    """Torch flattens 5 to "5", and unpickles what is no tensor without asking."""
    evil, metadata = pickle.dumps(Evil(mark)), metadata_of(step)
    (step / "evil").write_bytes(evil)
    index, place = next(iter(metadata.storage_data.items()))
    metadata.state_dict_metadata |= {5: metadata.state_dict_metadata[index.fqn], "5": BytesStorageMetadata()}
    metadata.storage_data[type(index)("5")] = type(place)("evil", 0, len(evil))
    return metadata


FORGERIES = {
    "another class": (unknown_class, r".metadata asks for posix.mkdir, where tensors alone may be described"),
    "within": (hidden_in_a_description, r".metadata asks for posix.mkdir, where tensors alone"),
    "a pickled entry": (
        pickled_entry_by_the_name_of_a_tensor,
        r".metadata asks for torch.distributed.checkpoint.metadata.BytesStorageMetadata, where",
    ),
    "no description": (lambda mark, step: [1], r".metadata holds a list, where tensors alone"),
    "an empty one": (lambda mark, step: {}, r".metadata holds a dict, where tensors alone"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_checkpoint_with_true_checksums_is_left_out_and_nothing_of_it_is_run(
    saved: tuple[Path, TPNet, Progress], forgery: str
) -> None:
    path, model, _ = saved
    make, reason = FORGERIES[forgery]
    mark, step, heard = path / "mark", path / "step-00000008", Heard()
    forge(step, make(mark, step))
    with world_of_one() as world:
        progress = folder_at(path, world, display=heard).load_newest(model, engine_of(model))
    assert not mark.exists()
    assert progress is not None and progress.step == 6
    [line] = heard.lines
    assert f"{step}: this checkpoint is left out: {reason}" in line and "\n" not in line


def test_a_checkpoint_whose_tensors_are_not_where_it_says_is_left_out(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    path, model, _ = saved
    step, heard = path / "step-00000008", Heard()
    metadata = metadata_of(step)
    for place in metadata.storage_data.values():
        place.offset += 10**9
    forge(step, metadata)
    with world_of_one() as world:
        progress = folder_at(path, world, display=heard).load_newest(model, engine_of(model))
    assert progress is not None and progress.step == 6
    assert [line.rsplit(": ", 1)[1] for line in heard.lines] == ["its tensors are not readable"]


def test_without_any_whole_checkpoint_training_starts_from_the_beginning(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    path, _, _ = saved
    (path / "best.pt").write_bytes(b"half")
    heard = Heard()
    with world_of_one() as world:
        folder = folder_at(path, world, display=heard)
        assert folder.load_newest(small_model(), engine_of(small_model())) is None
    assert [line.rsplit(": ", 1)[1] for line in heard.lines] == [
        *["best.pt is missing or damaged"] * 2,
        "no checkpoint is whole; starting from the beginning",
    ]


def test_what_a_killed_save_left_is_removed(saved: tuple[Path, TPNet, Progress]) -> None:
    path, _, progress = saved
    leftover = path / ".step-00000009.partial"
    leftover.mkdir()
    (leftover / "__0_0.distcp").write_bytes(b"half")
    heard = Heard()
    with world_of_one() as world:
        folder = folder_at(path, world, display=heard)
        assert folder.load_newest(small_model(), engine_of(small_model())) == progress
    assert heard.lines == [
        f"warning: {leftover}: this checkpoint was not finished when the run ended; removed"
    ]
    assert not leftover.exists()


def test_checkpoints_of_the_earlier_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "step-00000004.pt").write_bytes(b"")
    with world_of_one() as world, pytest.raises(InputError, match=r"4.pt: an earlier version wrote it"):
        folder_at(tmp_path, world).load_newest(small_model(), engine_of(small_model()))


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


@pytest.mark.parametrize("left", [["format"], ["epoch", "log_id"], ["model"]])
def test_a_best_file_that_no_run_wrote_is_refused(
    saved: tuple[Path, TPNet, Progress], left: list[str]
) -> None:
    path, model, _ = saved
    state = read_state(path / "best.pt")
    torch.save({key: value for key, value in state.items() if key not in left}, path / "best.pt")
    with (
        world_of_one() as world,
        pytest.raises(InputError, match=f"best.pt: lacks {', '.join(left)}, so no run"),
    ):
        folder_at(path, world).load_best(model)


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


def test_a_run_that_was_over_goes_on_with_more_epochs() -> None:
    progress = Progress(epoch=1, best_epoch=1)
    assert _ends(progress, TrainingConfig(epochs=2))
    progress.decide_whether_done(TrainingConfig(epochs=3))
    assert not progress.is_done
    progress = Progress(epoch=5, steps_of_epoch=3, step=60)
    progress.decide_whether_done(TrainingConfig(epochs=2))
    assert not progress.is_done  # an epoch under way is evaluated first


def _ends(progress: Progress, config: TrainingConfig) -> bool:
    progress.end_epoch(config)
    return progress.is_done
