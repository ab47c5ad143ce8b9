"""`tpnet_dist.predict` as users run it: real files in, real files out, or one sentence and nothing."""

import csv
import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support.command_line import Done, convert, run_here, sentence_of
from tests.support.launched_ranks import Launched, run_launched
from tests.support.predictors import FEATURES, ITEMS, shop_log, untrained_run
from tests.support.training_runs import small_config
from tpnet_dist import Predictor
from tpnet_dist import predict as predict_command
from tpnet_dist.training.weights_file import read_state

TOLERANCE = 2e-6
"""Links scored in other company: float32 sums may be added in another order."""
PROGRAM = predict_command.PROGRAM
MANY = 60_000
SECONDS = 240


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    shop_log(folder / "log")
    return untrained_run(small_config(folder / "log"), folder / "run")


@pytest.fixture(scope="module")
def predictor(run: Path) -> Predictor:
    return Predictor.load(run)


def predict(*args: object) -> Done:
    return run_here(predict_command.main, *args)


def refusal(*args: object) -> str:
    return sentence_of(predict(*args), PROGRAM)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([*lines, ""]))
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def many_pairs(path: Path, now: int) -> Path:
    draw = np.random.default_rng(0)
    users, items = draw.integers(3, 12, MANY), draw.integers(3, ITEMS, MANY)
    lines = (f"{user},{item},{now}" for user, item in zip(users, items, strict=True))
    return write(path, "src,dst,time", *lines)


# ---- scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_scores_of_a_file_are_those_of_its_links(
    run: Path, predictor: Predictor, tmp_path: Path, suffix: str
) -> None:
    now = int(predictor.now)
    pairs = write(tmp_path / "pairs.csv", "time,src,dst,note", f"{now},0, x2 ,a", f"{now + 5},11,0,b")
    out = tmp_path / f"scores{suffix}"
    done = predict(run, "--pairs", pairs, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "scores of 2 pairs" in done.stderr
    wanted = predictor.score(["0", "11"], ["x2", "0"], [now, now + 5])
    if suffix == ".parquet":
        table = pq.read_table(out).to_pydict()
    else:
        rows = rows_of(out)
        table = {name: [row[name] for row in rows] for name in rows[0]}
    assert list(table) == ["src", "dst", "time", "score"]
    assert (table["src"], table["dst"]) == (["0", "11"], ["x2", "0"])
    assert [int(one) for one in table["time"]] == [now, now + 5]
    np.testing.assert_allclose(np.array(table["score"], float), wanted, rtol=0, atol=TOLERANCE)
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.csv", out.name}


def test_other_columns_parquet_and_one_time_for_all(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [0, 1], "item": [3, 4]}), tmp_path / "pairs.parquet")
    args = ("--src", "user", "--dst", "item", "--at", 5000, "--probability", "--out", tmp_path / "out.csv")
    done = predict(run, "--pairs", tmp_path / "pairs.parquet", *args)
    assert done.returncode == 0, done.stderr
    assert "probabilities not calibrated" in done.stderr
    for column, asked in (("score", False), ("probability", True)):
        found = [float(row[column]) for row in rows_of(tmp_path / "out.csv")]
        wanted = predictor.score([0, 1], [3, 4], 5000, probability=asked)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)


def test_unknown_ids_are_left_out_if_asked_for(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.csv", "src,dst", "0,3", "who,3", "1,what", "1,4")
    done = predict(run, "--pairs", pairs, "--skip-unknown", "--out", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
    assert "2 of 4 pairs are left out, for 2 unknown ids (who, what)" in done.stderr
    assert [(row["src"], row["dst"]) for row in rows_of(tmp_path / "out.csv")] == [("0", "3"), ("1", "4")]


def test_the_best_destinations_of_some_sources(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    sources = write(tmp_path / "sources.csv", "src", "0", "x2")
    done = predict(run, "--top-k", 3, "--sources", sources, "--out", tmp_path / "best.csv")
    assert done.returncode == 0, done.stderr
    rows, wanted = rows_of(tmp_path / "best.csv"), predictor.top_k(["0", "x2"], predictor.now, 3)
    assert [row["src"] for row in rows] == ["0"] * 3 + ["x2"] * 3
    assert [row["rank"] for row in rows] == ["1", "2", "3"] * 2
    assert [row["dst"] for row in rows] == wanted.destinations.ravel().tolist()


def test_without_a_file_results_are_shown(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    sources = write(tmp_path / "sources.csv", "src", "0", "x2")
    asked = ("--top-k", 2, "--sources", sources, "--candidates", "two-hop", "--candidate-count", 5)
    done = predict(run, *asked, "--exclude-seen", "--exclude-self")
    assert done.returncode == 0, done.stderr
    heads, *rows = [line.split() for line in done.stdout.splitlines()]
    assert heads == ["src", "time", "rank", "dst", "score"]
    wanted = predictor.top_k(
        ["0", "x2"], predictor.now, 2, "two-hop", count=5, exclude_seen=True, exclude_self=True
    )
    assert [row[3] for row in rows] == wanted.destinations[wanted.found].tolist()
    pairs = predict(run, "--pairs", write(tmp_path / "pairs.csv", "src,dst", "0,3"), "--probability")
    assert pairs.stdout.split()[:5] == ["src", "dst", "time", "score", "probability"]


def test_unknown_candidates_are_named_with_their_file_and_left_out_if_asked_for(
    run: Path, predictor: Predictor, tmp_path: Path
) -> None:
    sources = write(tmp_path / "sources.csv", "src", "0")
    items = write(tmp_path / "items.csv", "dst", "3", "what", "x2", "what")
    asked = ("--top-k", 2, "--sources", sources, "--candidates", items, "--out", tmp_path / "best.csv")
    refusal(run, *asked)
    done = predict(run, *asked, "--skip-unknown")
    assert done.returncode == 0, done.stderr
    assert "2 of 4 candidates are left out, for 1 unknown ids (what)" in " ".join(done.stderr.split())
    wanted = predictor.top_k("0", predictor.now, 2, ["3", "x2"]).destinations.ravel().tolist()
    assert [row["dst"] for row in rows_of(tmp_path / "best.csv")] == wanted
    write(items, "dst", "what")
    assert "all candidates name unknown ids" in predict(run, *asked, "--skip-unknown").stderr


def test_what_is_observed_first_is_known_and_can_be_kept(run: Path, tmp_path: Path) -> None:
    features = ",".join(f"f{n}" for n in range(FEATURES))
    events = write(tmp_path / "new.csv", f"src,dst,time,{features}", "0,3,4000,1,2,3", "who,4,4001,0,0,.5")
    pairs = write(tmp_path / "pairs.csv", "src,dst,time", "who,5,4001")
    out, kept = tmp_path / "out.csv", tmp_path / "kept.pt"
    done = predict(run, "--observe", events, "--pairs", pairs, "--out", out, "--save", kept)
    assert done.returncode == 0, done.stderr
    told = Predictor.load(run)
    told.observe(["0", "who"], ["3", "4"], [4000, 4001], [[1, 2, 3], [0, 0, 0.5]])
    [wanted] = told.score("who", "5", 4001)
    assert float(rows_of(out)[0]["score"]) == pytest.approx(wanted, abs=TOLERANCE)
    done = predict(kept, "--pairs", pairs, "--out", tmp_path / "again.csv")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.csv").read_bytes() == out.read_bytes()


def test_two_ranks_write_the_file_of_one(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.csv", "src,dst", *(f"{n % 9 + 3},{n % 5 + 3}" for n in range(51)))
    assert predict(run, "--pairs", pairs, "--out", tmp_path / "one.csv").returncode == 0
    args = (run, "--pairs", pairs, "--out", tmp_path / "two.csv")
    done = run_launched("tpnet_dist.predict", *args, ranks=2)
    assert done.returncode == 0, done.stderr
    one, two = (rows_of(tmp_path / f"{name}.csv") for name in ("one", "two"))
    assert [(row["src"], row["dst"]) for row in two] == [(row["src"], row["dst"]) for row in one]
    found, wanted = ([float(row["score"]) for row in rows] for rows in (two, one))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)


# ---- what is refused ---------------------------------------------------------------------------------------

PAIRS: dict[str, list[str]] = {
    "empty": [],
    "header alone": ["src,dst,time"],
    "no column": ["from,dst", "0,3"],
    "unknown": ["src,dst", "0,3", "u,3", "0,v", "w,v"],
    "too early": ["src,dst,time", "0,3,5000", "0,3,7"],
    "text for times": ["src,dst,time", "0,3,soon"],
    "no time": ["src,dst,time", "0,3,5000", "0,3,"],
    "a column twice": ["src,dst,src", "0,3,1"],
    "a row too short": ["src,dst,time", "0,3"],
}


@pytest.mark.parametrize("case", PAIRS)
def test_bad_pairs_get_one_sentence_and_no_file(run: Path, tmp_path: Path, case: str) -> None:
    lines = PAIRS[case]
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("".join(f"{line}\n" for line in lines))
    refusal(run, "--pairs", pairs, "--out", tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_file_that_was_cut_short_is_named(run: Path, tmp_path: Path, compression: str) -> None:
    pairs = tmp_path / f"pairs.csv.{ {'gzip': 'gz', 'zstd': 'zst'}[compression] }"
    lines = "".join(f"{n % 12},{n % 9}\n" for n in range(5000))
    with pa.output_stream(pairs, compression=compression) as stream:
        stream.write(f"src,dst\n{lines}".encode())
    pairs.write_bytes(pairs.read_bytes()[:-20])
    refusal(run, "--pairs", pairs, "--out", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_of_columns_that_nobody_asks_for_two_may_have_one_name(
    run: Path, predictor: Predictor, tmp_path: Path
) -> None:
    pairs = write(tmp_path / "pairs.csv", "src,dst,note,note", "0,3,a,b")
    assert predict(run, "--pairs", pairs, "--out", tmp_path / "out.csv").returncode == 0
    features = ",".join(["f"] * FEATURES)
    events = write(tmp_path / "new.csv", f"src,dst,time,{features}", "0,3,4000,1,2,3")
    refusal(run, "--observe", events, "--save", tmp_path / "kept.pt")


def test_bad_tasks_get_one_sentence_and_no_file(run: Path, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.csv", "src,dst", "0,3")
    early = write(tmp_path / "early.csv", "src,dst,time,a,b,c", "0,3,1,0,0,0")
    bare = write(tmp_path / "bare.csv", "src,dst,time", "0,3,5000")
    out = tmp_path / "out.csv"
    asked = ("--pairs", pairs, "--out", out)
    tasks: list[tuple[object, ...]] = [
        ("--top-k", 99, "--sources", pairs, "--out", out),
        ("--pairs", pairs, "--out", tmp_path / "out.txt"),
        ("--pairs", pairs, "--out", tmp_path / "no" / "out.csv"),
        (*asked, "--at", "1e30"),
        (*asked, "--at", "9" * 5000),
        (*asked, "--at", 7),
        ("--pairs", tmp_path / "no.csv", "--out", out),
        ("--observe", early, *asked),
        ("--observe", bare, *asked),
    ]
    before = {path.name for path in tmp_path.iterdir()}
    for args in tasks:
        refusal(run, *args)
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("flag", ["--out", "--save"])
def test_a_place_where_no_file_can_be_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    task = ("--pairs", "absent.csv") if flag == "--out" else ()
    for place in ("folder.csv", "no/x.csv"):
        refusal("absent", *task, flag, place)


def test_bad_checkpoints_get_one_sentence(run: Path, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.csv", "src,dst", "0,3")
    asked = ("--pairs", pairs, "--out", tmp_path / "out.csv")
    state = read_state(run / "checkpoints" / "seed-0" / "best.pt")
    for name, changes in {"later": {"format": 9}, "other": {"log_id": "x"}, "evil": {"epoch": Path}}.items():
        torch.save({**state, **changes}, tmp_path / f"{name}.pt")
    refusal(tmp_path / "later.pt", *asked)
    refusal(tmp_path / "other.pt", *asked)
    refusal(tmp_path / "evil.pt", *asked)
    refusal(tmp_path, *asked)
    assert not (tmp_path / "out.csv").exists()


# ---- being killed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_prediction_leaves_no_half_file_and_can_be_repeated(
    run: Path, predictor: Predictor, tmp_path: Path, number: signal.Signals
) -> None:
    pairs, out = many_pairs(tmp_path / "pairs.csv", int(predictor.now)), tmp_path / "scores.csv"
    launched = Launched.start("tpnet_dist.predict", run, "--pairs", pairs, "--out", out)
    [process] = launched.processes
    part = tmp_path / ".scores.csv.part"
    while not (part.exists() and part.stat().st_size):
        assert process.is_alive()
        time.sleep(0.001)
    os.kill(process.pid, number)
    assert launched.end().returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert not out.exists()
    assert part.exists() == (number == signal.SIGKILL)
    few = write(tmp_path / "pairs.csv", "src,dst", "0,3", "1,4")
    assert predict(run, "--pairs", few, "--out", out).returncode == 0
    assert len(rows_of(out)) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.csv", "scores.csv"}


def test_links_without_an_id_are_refused(run: Path, tmp_path: Path) -> None:
    events = write(tmp_path / "events.csv", "src,dst,time,a,b,c", ",3,5000,0,0,0")
    saved = ("--observe", events, "--save", tmp_path / "m.pt")
    refusal(run, *saved)
    table = pa.table({"src": ["0", None], "dst": ["3", "3"], "time": [5000, 5000]})
    pq.write_table(table, tmp_path / "pairs.parquet")
    args = ("--pairs", tmp_path / "pairs.parquet", "--out", tmp_path / "out.csv")
    refusal(run, *args)
    assert not (tmp_path / "m.pt").exists() and not (tmp_path / "out.csv").exists()


# ---- files as they were converted ------------------------------------------------------------------------


def shop_lines(first: int, count: int, columns: str = "user,item,weight,when") -> list[str]:
    values = [
        {"user": f"u{i % 7}", "item": f"x{i % 5}", "weight": i % 4 / 4, "when": 1_700_000_000 + 60 * i}
        for i in range(first, first + count)
    ]
    return [columns, *(",".join(str(row[name]) for name in columns.split(",")) for row in values)]


def test_files_are_taken_and_answered_in_the_columns_that_were_converted(tmp_path: Path) -> None:
    raw = write(tmp_path / "raw.csv", *shop_lines(0, 300))
    flags = ["--time", "when", "--features", "weight", "--bipartite"]
    convert(raw, tmp_path / "log", *flags)
    run = untrained_run(small_config(tmp_path / "log"), tmp_path / "run")
    pairs = write(tmp_path / "pairs.csv", *shop_lines(400, 5))
    scores = []
    for number, columns in enumerate(("user,item,weight,when", "weight,when,item,user")):
        observed = write(tmp_path / "new.csv", *shop_lines(300, 50, columns))
        out = tmp_path / f"scores-{number}.csv"
        done = predict(run, "--observe", observed, "--pairs", pairs, "--out", out)
        assert done.returncode == 0, done.stderr
        scores.append(rows_of(out))
    assert list(scores[0][0]) == ["user", "item", "when", "score"]
    assert scores[0] == scores[1]
    lacking = write(tmp_path / "lacking.csv", *shop_lines(300, 5, "user,item,when"))
    assert "lacks feature column weight" in refusal(
        run, "--observe", lacking, "--pairs", pairs, "--out", tmp_path / "none.csv"
    )
    assert not (tmp_path / "none.csv").exists()
