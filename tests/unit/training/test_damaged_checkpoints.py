"""Checkpoints that are cut, lost, tampered with or half written are named and left out; none is run."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint.metadata import BytesStorageMetadata

from benchmarks.rank_pool import world_of_one
from tests.support.checkpoints import Heard, engine_of, folder_at, small_model
from tests.support.tampered_checkpoints import Evil, forge, metadata_of
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.progress import Progress


def cut(step: Path) -> None:
    [data] = step.glob("*.distcp")
    data.write_bytes(data.read_bytes()[:-10])


def flip(step: Path) -> None:
    [data] = step.glob("*.distcp")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)


def replace_by_pipe(step: Path) -> None:
    (step / ".metadata").unlink()
    os.mkfifo(step / ".metadata")


DAMAGES = {
    "cut": (cut, r"__0_0.distcp is damaged"),
    "one bit": (flip, r"__0_0.distcp is damaged"),
    "lost file": (lambda step: (step / ".metadata").unlink(), r".metadata is missing"),
    "lost manifest": (lambda step: (step / "manifest.json").unlink(), r"manifest.json is missing"),
    "half a manifest": (
        lambda step: (step / "manifest.json").write_text('{"format": 1, "fil'),
        r"manifest.json is not readable",
    ),
    "a pipe": (replace_by_pipe, r".metadata is no file"),
    "later format": (
        lambda step: (step / "manifest.json").write_text('{"format": 2}'),
        r"it has format 2, and this version reads 1",
    ),
}


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


TAMPERINGS = {
    "another class": (unknown_class, r".metadata asks for posix.mkdir, where tensors alone may be described"),
    "within": (hidden_in_a_description, r".metadata asks for posix.mkdir, where tensors alone"),
    "a pickled entry": (
        pickled_entry_by_the_name_of_a_tensor,
        r".metadata asks for torch.distributed.checkpoint.metadata.BytesStorageMetadata, where",
    ),
    "no description": (lambda mark, step: [1], r".metadata holds a list, where tensors alone"),
    # for which the unpickler would make room: 2**31 pointers
    "a value of a high number": (
        lambda mark, step: b"\x80\x02]r\xff\xff\xff\x7f.",
        r".metadata numbers a value 2147483647, where tensors alone",
    ),
    "an empty one": (lambda mark, step: {}, r".metadata holds a dict, where tensors alone"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_tampered_checkpoint_with_true_checksums_is_left_out_and_nothing_of_it_is_run(
    saved: tuple[Path, TPNet, Progress], tampering: str
) -> None:
    path, model, _ = saved
    make, reason = TAMPERINGS[tampering]
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
