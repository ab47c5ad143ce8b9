"""The command line of `predict`: what it takes, and one sentence for what it does not."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.predict import parse_predict

REFUSED = (
    "",
    "runs/a",
    "runs/a --out s.csv",
    "runs/a --pairs p.csv --top-k 3 --out s.csv",
    "runs/a --top-k 3 --out s.csv",
    "runs/a --pairs p.csv --candidates c.csv --out s.csv",
    "runs/a --pairs p.csv --exclude-seen",
    "runs/a --top-k 3 --sources w.csv --candidate-count 9",
    "runs/a --top-k 3 --sources w.csv --candidates recent --candidate-count 0",
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


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("2016-02-01", datetime(2016, 2, 1)),
        ("2016-02-01T12:30", datetime(2016, 2, 1, 12, 30)),
        ("1454284800000000001", 1454284800000000001),
        ("1.5", 1.5),
    ],
)
def test_a_moment_is_a_number_or_a_date(at: str, wanted: object) -> None:
    assert parse_predict(["runs/a", "--pairs", "p.csv", "--at", at]).moment() == wanted


def test_candidates_are_a_way_to_choose_or_a_file() -> None:
    said = ["runs/a", "--top-k", "3", "--sources", "who.csv", "--candidates"]
    assert parse_predict([*said, "two-hop"]).candidates_file() is None
    assert parse_predict([*said, "./recent"]).candidates_file() == Path("recent")


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
