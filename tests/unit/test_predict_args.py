"""The command line of `predict`: what it takes, and one sentence for what it does not."""

from pathlib import Path

import pytest

from tpnet_dist.errors import InputError
from tpnet_dist.predict import parse_predict

REFUSED = {
    "": "no run is given; name the folder of one, or see --help",
    "runs/a": "there is nothing to do; give --pairs, --top-k or --save, or see --help",
    "runs/a --pairs p.csv": "--pairs or --top-k says what to find out and --out where to write it; give both",
    "runs/a --out s.csv": "--pairs or --top-k says what to find out and --out where to write it; give both",
    "runs/a --pairs p.csv --top-k 3 --out s.csv": "--pairs and --top-k are two tasks; give one of them",
    "runs/a --top-k 3 --out s.csv": "--top-k says how many and --sources of whom; give both",
    "runs/a --pairs p.csv --candidates c.csv --out s.csv": "--candidates are for --top-k; give it too, or "
    "leave them away",
    "runs/a --pairs p.csv --out ./p.csv": "p.csv: would be replaced by the results; choose another --out",
    "runs/a --observe n.csv --save n.csv": "n.csv: would be replaced by the results; choose another --save",
    "runs/a --pairs p.csv --out s.csv --at noon": "at is 'noon', but must be a number; "
    "write it as the log's times are",
    "runs/a --top-k many": "top_k is 'many', but must be a whole number; write it like 20 or 1e6",
    "runs/a --pair p.csv": "unknown flag --pair; did you mean --pairs?",
    "runs/a --skip-unknown=no": "--skip-unknown=no: --skip-unknown takes no value; leave no away",
}


def test_what_is_said_is_taken() -> None:
    args = "runs/a --top-k 1e1 --sources who.csv --out best.parquet --at 1.5e9 --src user --skip-unknown"
    command = parse_predict(args.split())
    assert (command.run, command.out, command.top_k) == (Path("runs/a"), Path("best.parquet"), 10)
    assert (command.moment(), command.src, command.dst, command.skip_unknown) == (1.5e9, "user", "dst", True)
    assert command.settings() is None


def test_settings_of_a_released_checkpoint_come_from_preset_and_file(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text("[model]\nneighbors = 7\n")
    args = ["a.pkl", "--save", "b.pt", "--preset", "uci", "--config", str(tmp_path / "some.toml")]
    config = parse_predict(args).settings()
    assert config is not None and config.model.neighbors == 7
    assert config.memory.decay != type(config.memory)().decay


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence(args: str) -> None:
    with pytest.raises(InputError) as error:
        parse_predict(args.split())
    assert str(error.value) == REFUSED[args]


def test_help_lists_every_flag_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_predict(["--help"])
    shown = capsys.readouterr().out
    assert "--top-k K" in shown
    assert "Example: python -m tpnet_dist.predict runs/mine --pairs pairs.csv" in shown
    assert "--top-k 20 --sources users.csv --out best.csv" in shown
    assert "--skip-unknown" in shown
