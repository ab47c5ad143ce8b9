"""What the launcher says when ranks have ended."""

import signal
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from tpnet_dist.distributed.launch_environment import tell_launcher
from tpnet_dist.distributed.launcher import exit_code_of
from tpnet_dist.errors import BAD_INPUT

SENTENCE = "tpnet train: error: nowhere: no such data folder"


def failure(told: Path, rank: int, code: int, speakers: list[int]) -> ProcessFailure:
    if code == BAD_INPUT:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TORCHELASTIC_ERROR_FILE", str(told))
            tell_launcher(SENTENCE, is_unsaid=bool(speakers) and rank not in speakers)
    return ProcessFailure(local_rank=rank, pid=1, exitcode=code, error_file=str(told))


@pytest.mark.parametrize(
    ("codes", "speakers", "said"),
    [
        pytest.param([BAD_INPUT, BAD_INPUT], [0], "", id="the first rank has said it"),
        pytest.param([-signal.SIGTERM, BAD_INPUT], [0], f"{SENTENCE}\n", id="ended before it could say it"),
        pytest.param([128 + signal.SIGTERM, BAD_INPUT], [0], f"{SENTENCE}\n", id="said that it was ended"),
        pytest.param([-signal.SIGTERM, BAD_INPUT], [0, 1], "", id="each says it"),
        pytest.param([-signal.SIGTERM, BAD_INPUT], [], "", id="it is said on another host"),
    ],
)
def test_a_mistake_is_said_even_if_another_rank_was_faster(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    codes: list[int],
    speakers: list[int],
    said: str,
) -> None:
    failures = {
        rank: failure(tmp_path / f"{rank}.json", rank, code, speakers) for rank, code in enumerate(codes)
    }

    assert exit_code_of(ChildFailedError("ranks", failures), "tpnet train") == BAD_INPUT
    assert capsys.readouterr().err == said
