"""The command line of `predict`: what it takes, and one sentence for what it does not."""

from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.predict import parse_predict

REFUSED = (
    "",
    "runs/a",
    "runs/a --pairs p.csv",
    "runs/a --out s.csv",
    "runs/a --pairs p.csv --top-k 3 --out s.csv",
    "runs/a --top-k 3 --out s.csv",
    "runs/a --pairs p.csv --candidates c.csv --out s.csv",
    "runs/a --pairs p.csv --out ./p.csv",
    "runs/a --observe n.csv --save n.csv",
    "runs/a --pairs p.csv --out s.csv --at noon",
    "runs/a --top-k many",
    "runs/a --pair p.csv",
    "runs/a --skip-unknown=no",
)


def test_what_is_said_is_taken() -> None:
    args = "runs/a --top-k 1e1 --sources who.csv --out best.parquet --at 1.5e9 --src user --skip-unknown"
    command = parse_predict(args.split())
    assert (command.run, command.out, command.top_k) == (Path("runs/a"), Path("best.parquet"), 10)
    assert (command.moment(), command.src, command.dst, command.skip_unknown) == (1.5e9, "user", None, True)
    assert command.settings() is None


def test_settings_of_a_released_checkpoint_come_from_preset_and_file(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text("[model]\nneighbors = 7\n")
    args = ["a.pkl", "--save", "b.pt", "--preset", "uci", "--config", str(tmp_path / "some.toml")]
    config = parse_predict(args).settings()
    assert config is not None and config.model.neighbors == 7
    assert config.memory.decay != type(config.memory)().decay


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence(args: str) -> None:
    with refused():
        parse_predict(args.split())


def test_help_lists_every_flag_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_predict(["--help"])
    shown = capsys.readouterr().out
    assert "--top-k K" in shown
    assert "Example: python -m tpnet_dist.predict runs/mine --pairs pairs.csv" in shown
    assert "--top-k 20 --sources users.csv --out best.csv" in shown
    assert "--skip-unknown" in shown
