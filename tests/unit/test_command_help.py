"""`--help` of each command that trains nothing: its flags with what they take, and its examples."""

from collections.abc import Callable
from typing import Any

import pytest

from tpnet_dist.doctor import parse_doctor
from tpnet_dist.evaluate_command import parse_evaluate
from tpnet_dist.predict import parse_predict
from tpnet_dist.report.__main__ import parse_report
from tpnet_dist.runs import parse_runs
from tpnet_dist.serve import parse_serve

SHOWN: dict[str, tuple[Callable[[list[str]], Any], tuple[str, ...]]] = {
    "doctor": (parse_doctor, ("--ranks COUNT", "--json")),
    "evaluate": (parse_evaluate, ("--mrr-negatives COUNT", "--negatives random|historical|inductive")),
    "predict": (
        parse_predict,
        (
            "--top-k K",
            "Example: tpnet predict runs/mine --pairs pairs.csv",
            "--top-k 20 --sources users.csv --out best.csv",
            "--skip-unknown",
        ),
    ),
    "report": (parse_report, ("--out FILE.html", "RUN")),
    "runs": (parse_runs, ("--sort COLUMN", "[DIR]")),
    "serve": (parse_serve, ("--port PORT", "--most-waiting COUNT")),
}


@pytest.mark.parametrize("command", SHOWN)
def test_help_lists_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    parse, pieces = SHOWN[command]
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    assert [piece for piece in pieces if piece not in shown] == []
