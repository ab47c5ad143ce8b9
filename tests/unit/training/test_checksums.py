"""A bit that a disk or a hand changed in a checkpoint is named, or has no effect: never believed."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.checkpoints import Heard, engine_of, folder_at
from tests.support.tampered_checkpoints import change_manifest, forge, metadata_of
from tpnet_dist.errors import InputError
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.content_digest import content_digest
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.step_folder import DamagedCheckpoint, read_facts, read_tensors
from tpnet_dist.training.weights_file import read_state

FLIPS = 60


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def some_bits(content: bytes, seed: int) -> list[int]:
    return random.Random(seed).sample(range(8 * len(content)), FLIPS)


def same(one: Any, other: Any) -> bool:
    return content_digest({"it": one}) == content_digest({"it": other})


def test_a_flipped_bit_of_the_best_weights_is_refused_or_without_effect(
    saved: tuple[Path, TPNet, Progress],
) -> None:
    best = saved[0] / "best.pt"
    content, state = best.read_bytes(), read_state(best)
    refused = 0
    for bit in some_bits(content, 0):
        best.write_bytes(flipped(content, bit))
        try:
            assert same(read_state(best), state), bit
        except InputError as error:
            refused += 1
            assert str(best) in str(error)
    assert refused > FLIPS // 2  # most of the file is weights


def test_a_flipped_bit_of_a_step_is_refused_or_without_effect(saved: tuple[Path, TPNet, Progress]) -> None:
    step = saved[0] / "step-00000008"
    before = {**read_facts(step), "tensors": read_tensors(step)}
    for file in sorted(step.iterdir()):
        content = file.read_bytes()
        for bit in some_bits(content, 1)[:20]:
            file.write_bytes(flipped(content, bit))
            try:
                assert same({**read_facts(step), "tensors": read_tensors(step)}, before), (file, bit)
            except DamagedCheckpoint as error:
                assert file.name in str(error) or "format" in str(error), (file, bit)
        file.write_bytes(content)


@pytest.mark.parametrize("length", [-1, -1000, 100, 0])
def test_best_weights_cut_anywhere_are_named(saved: tuple[Path, TPNet, Progress], length: int) -> None:
    best = saved[0] / "best.pt"
    best.write_bytes(best.read_bytes()[:length])
    with pytest.raises(InputError, match=r"best\.pt: not a readable checkpoint"):
        read_state(best)


def test_weights_that_torch_wrote_without_a_checksum_are_taken(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "published.pkl")
    assert torch.equal(read_state(tmp_path / "published.pkl")["a"], torch.ones(2))


PROGRESS = {
    "epoch": -3,
    "steps_of_epoch": -1,
    "step": 1.5,
    "events": True,
    "seconds": float("nan"),
    "best_ap": float("inf"),
    "best_epoch": 10**9,
}


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_that_no_run_writes_is_left_out(saved: tuple[Path, TPNet, Progress], name: str) -> None:
    path, model, _ = saved
    step, heard = path / "step-00000008", Heard()
    change_manifest(step, lambda manifest: manifest["progress"].update({name: PROGRESS[name]}))
    with world_of_one() as world:
        progress = folder_at(path, world, display=heard).load_newest(model, engine_of(model))
    assert progress is not None and progress.step == 6
    [line] = heard.lines
    assert f"manifest.json says that {name} is {PROGRESS[name]!r}" in line


def test_more_steps_than_an_epoch_has_are_left_out(saved: tuple[Path, TPNet, Progress]) -> None:
    path, model, _ = saved
    heard = Heard()
    with world_of_one() as world:
        folder = folder_at(path, world, display=heard)
        assert folder.load_newest(model, engine_of(model), steps_per_epoch=2) is None
        assert folder.load_newest(model, engine_of(model), steps_per_epoch=3) is not None
    assert "this checkpoint is left out: it has done 3 steps of an epoch of 2" in heard.lines[0]


def test_a_manifest_changed_by_hand_is_named(saved: tuple[Path, TPNet, Progress]) -> None:
    step = saved[0] / "step-00000008"
    manifest = json.loads((step / "manifest.json").read_text())
    manifest["progress"]["epoch"] += 1
    (step / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedCheckpoint, match=r"manifest\.json is damaged"):
        read_facts(step)


def test_no_file_outside_the_folder_is_read(saved: tuple[Path, TPNet, Progress], tmp_path: Path) -> None:
    step = saved[0] / "step-00000008"
    metadata = metadata_of(step)
    for index, place in metadata.storage_data.items():
        metadata.storage_data[index] = type(place)("../elsewhere", place.offset, place.length)
    forge(step, metadata)
    with pytest.raises(DamagedCheckpoint, match=r"names a file '\.\./elsewhere', outside its folder"):
        read_tensors(step)
    change_manifest(step, lambda manifest: manifest["files"].update({"../best.pt": {}}))
    with pytest.raises(DamagedCheckpoint, match=r"names '\.\./best\.pt', which is outside its folder"):
        read_facts(step)
