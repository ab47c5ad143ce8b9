"""Arguments that cannot be used are refused before ranks meet: one rank of every host says so."""

from types import ModuleType

import pytest

from tests.support.command_line import run_here
from tpnet_dist import evaluate_command, predict, train


@pytest.mark.parametrize("command", [train, evaluate_command, predict])
@pytest.mark.parametrize(("rank", "rank_of_host", "lines"), [(0, 0, 1), (1, 1, 0), (4, 0, 1), (5, 1, 0)])
def test_one_rank_of_each_host_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, command: ModuleType, rank: int, rank_of_host: int, lines: int
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("LOCAL_RANK", str(rank_of_host))
    refused = run_here(command.main, "--no-such-flag", "1")
    assert refused.returncode == 2
    assert refused.stderr.count("unknown flag --no-such-flag") == lines
    assert len(refused.stderr.splitlines()) == lines
