"""The command line of `evaluate`: what it takes, and one sentence for what it does not."""

from pathlib import Path

import pytest

from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluate import parse_evaluate

REFUSED = {
    "": "no run is given; name the folder of one, or see --help",
    "runs/a runs/b": "runs/b: the run is runs/a already; give one",
    "runs/a --negatives some": "negatives holds 'some', but must hold any of random, historical, inductive; "
    "--help explains them",
    "runs/a --mrr-negatives many": "mrr_negatives is 'many', but must be a whole number; "
    "write it like 20 or 1e6",
    "runs/a --negative random": "unknown flag --negative; did you mean --negatives?",
    "runs/a --protocol": "--protocol has no value; write one after it",
    "runs/a --json=yes": "--json=yes: --json takes no value; leave yes away",
}


def test_what_is_said_changes_the_runs_settings() -> None:
    args = (
        "runs/a --negatives random historical --mrr-negatives 1e2 --update False --data there --save --json"
    )
    command = parse_evaluate(args.split())
    assert (command.run, command.save, command.json, command.debug) == (Path("runs/a"), True, True, False)
    config = command.changed(Config())
    assert config.evaluation.negatives == ("random", "historical")
    assert (config.evaluation.mrr_negatives, config.evaluation.update) == (100, False)
    assert config.evaluation.protocol == Config().evaluation.protocol
    assert config.data.folder == "there"


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence(args: str) -> None:
    with pytest.raises(InputError) as error:
        parse_evaluate(args.split())
    assert str(error.value) == REFUSED[args]


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_evaluate(["--help"])
    shown = capsys.readouterr().out
    assert "--mrr-negatives COUNT" in shown
    assert "--negatives random|historical|inductive" in shown
