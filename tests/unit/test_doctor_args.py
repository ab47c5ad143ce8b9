"""The command line of `doctor`: one sentence for what it does not take."""

from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.doctor import _devices, parse_doctor

REFUSED = (
    "--ranks 0",
    "--ranks x",
    "--steps 1e9",
    "--batch-size 0",
    "--device gpu",
    "--rank 2",
    "--json=yes",
    "one two",
)


def test_flags_are_read() -> None:
    command = parse_doctor(["--ranks", "4", "--device=cpu", "--steps", "20", "--json"])
    assert (command.ranks, command.device, command.steps, command.json) == (4, "cpu", 20, True)
    assert parse_doctor([]).batch_size == 200


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence(args: str) -> None:
    with refused():
        parse_doctor(args.split())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with refused():
        parse_doctor([str(tmp_path)])


def test_it_is_not_started_by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    with refused():
        parse_doctor([])


def test_without_gpus_two_cpu_ranks_are_checked_and_gpus_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert _devices(parse_doctor([])) == ("cpu", 2)
    with refused():
        _devices(parse_doctor(["--device", "cuda"]))
