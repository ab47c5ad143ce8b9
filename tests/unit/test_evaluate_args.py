"""The command line of `evaluate`: what it takes, and one sentence for what it does not."""

from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.config.schema import Config
from tpnet_dist.evaluate_command import parse_evaluate

REFUSED = (
    "",
    "runs/a runs/b",
    "runs/a --negatives some",
    "runs/a --mrr-negatives many",
    "runs/a --negative random",
    "runs/a --protocol",
    "runs/a --json=yes",
)


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
    with refused():
        parse_evaluate(args.split())
