"""Events appended to a data folder: the log is that of one conversion, and what was there stays as it was."""

import hashlib
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import data_prep
from data_prep.__main__ import main
from tests.support.command_line import Done, convert, describe, refusal, run_here
from tests.support.sentences import refused
from tpnet_dist.events import EventLog

FLAGS = ("--src", "who", "--dst", "whom", "--time", "when", "--label", "label", "--features", "w,v")


def log_frame(count: int = 3000, *, text: bool = True) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    who, whom = (draw.pareto(1.2, count) * 20).astype(int) % 400, draw.integers(0, 90, count)
    return pl.DataFrame(
        {
            "who": [f"user-{n}" for n in who] if text else who,
            "whom": [f"item-{n}" for n in whom] if text else whom,
            "when": 1_289_241_911 + np.sort(draw.integers(0, count // 2, count)) * 60,
            "label": draw.integers(0, 2, count),
            "w": draw.normal(size=count).round(3),
            "v": draw.integers(0, 9, count),
        }
    )


def append(*args: object) -> Done:
    done = run_here(main, "append", *args)
    assert done.returncode == 0, done.stderr
    return done


def checksums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def events_of(log: EventLog) -> pl.DataFrame:
    """As the user has them."""
    raw, events = log.raw_ids().column("raw_id").to_numpy(), log.read(0, len(log))
    features = log.edge_features
    columns = {"src": raw[events.src], "dst": raw[events.dst], "time": events.time, "label": events.label}
    frame = pl.DataFrame(columns)
    return (
        frame if features is None else frame.with_columns(features=pl.Series(features[: len(log)].tolist()))
    )


def in_parts(frame: pl.DataFrame, folder: Path, count: int, suffix: str = "csv") -> list[Path]:
    """Files of unequal sizes."""
    folder.mkdir(exist_ok=True)
    borders = np.sort(np.random.default_rng(1).choice(len(frame) - 1, count - 1, replace=False) + 1)
    paths = []
    for number, (start, stop) in enumerate(zip([0, *borders], [*borders, len(frame)], strict=True)):
        paths.append(folder / f"part-{number}.{suffix}")
        part = frame[int(start) : int(stop)]
        part.write_csv(paths[-1]) if suffix == "csv" else part.write_parquet(paths[-1])
    return paths


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("spaces", [[], ["--bipartite"]], ids=["one", "two"])
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_ten_appends_are_one_conversion(tmp_path: Path, form: str, spaces: list[str], text: bool) -> None:
    frame = log_frame(text=text)
    paths = in_parts(frame, tmp_path / "raw", 11, form)
    convert(*paths, tmp_path / "whole", *FLAGS, *spaces)
    convert(paths[0], tmp_path / "grown", *FLAGS, *spaces, "--yes")
    for path in paths[1:]:
        append(path, tmp_path / "grown")
    whole, grown = EventLog(tmp_path / "whole"), EventLog(tmp_path / "grown")
    assert events_of(grown).equals(events_of(whole))
    sides = ["raw_id", "side"][: 1 + len(spaces)]
    ids = [pl.DataFrame(log.raw_ids().select(sides)).sort(sides) for log in (whole, grown)]
    assert ids[0].equals(ids[1])
    summary = describe(tmp_path / "grown", "--verify")
    assert summary["events"] == len(frame)
    assert [version["events"] for version in summary["versions"]][-1] == len(frame)
    assert len(summary["versions"]) == 11


def test_what_was_there_stays_and_can_be_opened_as_it_was(tmp_path: Path) -> None:
    paths = in_parts(log_frame(), tmp_path / "raw", 4)
    folder = tmp_path / "log"
    convert(paths[0], folder, *FLAGS)
    seen = []
    for path in paths[1:]:
        log = EventLog(folder)
        seen.append((log.manifest.log_id, events_of(log), log.raw_ids().to_pylist()))
        before = checksums(folder)
        append(path, folder)
        after = checksums(folder)
        assert {name for name, hash_ in before.items() if after[name] != hash_} == {"manifest.json"}
    for log_id, events, raw_ids in seen:
        then = EventLog(folder, log_id=log_id)
        assert events_of(then).equals(events)
        assert then.raw_ids().to_pylist() == raw_ids
        assert [record.file for record in then.verify()]
    with refused():
        EventLog(folder, log_id="0123456789abcdef")


def test_a_damaged_line_of_versions_is_refused(tmp_path: Path) -> None:
    paths = in_parts(log_frame(), tmp_path / "raw", 3)
    convert(paths[0], tmp_path / "log", *FLAGS)
    for path in paths[1:]:
        append(path, tmp_path / "log")
    shard = tmp_path / "log" / "events-00001.parquet"
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shard.write_bytes(damaged)
    assert "events-00001.parquet" in refusal("describe", tmp_path / "log", "--verify")


def test_files_are_matched_by_the_names_of_their_columns(tmp_path: Path) -> None:
    first, second = in_parts(log_frame(), tmp_path / "raw", 2)
    convert(first, tmp_path / "log", *FLAGS)
    shuffled = pl.read_csv(second).select("v", "when", pl.lit(7).alias("more"), "w", "label", "whom", "who")
    shuffled.write_parquet(tmp_path / "second.parquet")
    said = append(tmp_path / "second.parquet", tmp_path / "log").stdout
    assert "more" in said
    convert(first, second, tmp_path / "whole", *FLAGS)
    assert events_of(EventLog(tmp_path / "log")).equals(events_of(EventLog(tmp_path / "whole")))


def test_features_are_prepared_as_those_that_were_converted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time,w,kind\n1,2,1,0.5,tea\n2,3,2,,coffee\n1,3,3,1.5,tea\n")
    (tmp_path / "b.csv").write_text("src,dst,time,w,kind\n3,1,4,,cocoa\n4,1,5,1.0,coffee\n")
    flags = ("--features", "w,kind", "--fill", "mean", "--one-hot", "kind")
    convert(tmp_path / "a.csv", tmp_path / "log", *flags)
    said = append(tmp_path / "b.csv", tmp_path / "log").stdout
    assert "1 values of w" in said and "cocoa" in said
    features = EventLog(tmp_path / "log").edge_features
    assert features is not None
    assert features[:].tolist() == [[0.5, 0, 1], [1, 1, 0], [1.5, 0, 1], [1, 0, 0], [1, 1, 0]]


def test_new_nodes_get_features_of_the_table_or_zeros(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time\n1,2,1\n2,3,2\n1,3,300\n")
    (tmp_path / "b.csv").write_text("src,dst,time\n7,1,400\n8,1,500\n")
    (tmp_path / "nodes.csv").write_text("id,age\n1,10\n2,20\n3,30\n7,70\n")
    table = ("--node-features", tmp_path / "nodes.csv")
    convert(tmp_path / "a.csv", tmp_path / "log", *table, "--node-id", "id")
    append(tmp_path / "b.csv", tmp_path / "log", *table)
    log = EventLog(tmp_path / "log")
    assert log.node_features is not None
    ages = dict(
        zip(log.raw_ids().column("raw_id").to_pylist(), log.node_features[:].ravel().tolist(), strict=True)
    )
    assert ages == {1: 10, 2: 20, 3: 30, 7: 70, 8: 0}


@pytest.mark.parametrize(
    ("flags", "first", "later", "times"),
    [
        (["--time-step", "10"], "3 5 5", "5 9", [0, 10, 10, 10, 20]),
        (["--time-unit", "iso"], "2024-01-01 2024-01-02 2024-01-03", "2024-01-03T12:00:00", None),
        (["--time-unit", "ms"], "1700000000000 1700000000005 1700000100000", "1700000100001", None),
        (["--sort"], "30 10 20", "50 40", [10, 20, 30, 40, 50]),
        ([], "0.5 1.5 200", "300 300.25", [0.5, 1.5, 200, 300, 300.25]),
    ],
    ids=["ranks", "dates", "milliseconds", "sorted", "fractions"],
)
def test_times_go_on_as_they_were_read(
    tmp_path: Path, flags: list[str], first: str, later: str, times: list[float] | None
) -> None:
    for name, text in (("a", first), ("b", later), ("c", f"{first} {later}")):
        rows = [f"{n % 3},{n % 2 + 5},{time}" for n, time in enumerate(text.split())]
        (tmp_path / f"{name}.csv").write_text("\n".join(["src,dst,time", *rows, ""]))
    convert(tmp_path / "a.csv", tmp_path / "log", *flags)
    append(tmp_path / "b.csv", tmp_path / "log")
    convert(tmp_path / "c.csv", tmp_path / "whole", *flags)
    log, whole = EventLog(tmp_path / "log"), EventLog(tmp_path / "whole")
    found = log.read(0, len(log)).time
    assert found.tolist() == whole.read(0, len(whole)).time.tolist()
    assert times is None or found.tolist() == times
    assert log.manifest.last_time == found[-1]


@pytest.mark.parametrize("content", [None, "src,dst,time\n", "# a comment\nsrc,dst,time\n"])
def test_nothing_to_append_is_said_and_changes_nothing(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time\n1,2,1\n2,3,2\n1,3,300\n")
    convert(tmp_path / "a.csv", tmp_path / "log", "--comment", "#")
    (tmp_path / "b.csv").write_text(content or "")
    before = checksums(tmp_path / "log")
    assert "nothing to append" in append(tmp_path / "b.csv", tmp_path / "log").stdout
    assert checksums(tmp_path / "log") == before


def test_the_same_file_again_is_no_news(tmp_path: Path) -> None:
    first, second = in_parts(log_frame(), tmp_path / "raw", 2)
    convert(first, tmp_path / "log", *FLAGS)
    append(second, tmp_path / "log")
    before = checksums(tmp_path / "log")
    assert "appended last time" in append(second, tmp_path / "log").stdout
    assert checksums(tmp_path / "log") == before


GOOD = "src,dst,time,w\n1,2,100,0.5\n2,3,200,0.5\n1,3,300,0.5\n"
BAD: dict[str, tuple[list[str], str, list[str]]] = {
    "events before the last": ([], "src,dst,time,w\n1,2,299,0.5\n", []),
    "events before the last, sorted": ([], "src,dst,time,w\n1,2,400,1\n1,2,10,1\n", ["--sort"]),
    "not in order": ([], "src,dst,time,w\n1,2,400,1\n1,2,350,1\n", []),
    "text ids where numbers are": ([], "src,dst,time,w\n1,2,400,1\nann,2,410,1\n", []),
    "a null id": ([], "src,dst,time,w\n1,,400,1\n", []),
    "a column is missing": ([], "src,dst,time\n1,2,400\n", []),
    "other features": (["--features", "w"], "src,dst,time,v\n1,2,400,1\n", []),
    "a missing feature": (["--features", "w"], "src,dst,time,w\n1,2,400,\n", []),
    "no header": ([], "1,2,400,1\n1,2,410,1\n", []),
    "one event without a header": ([], "1,2,400,1\n", []),
    "two id spaces": ([], "src,dst,time,w\n1,2,400,1\n", ["--bipartite"]),
    "one id space": (["--bipartite"], "src,dst,time,w\n1,2,400,1\n", ["--one-id-space"]),
    "fractions where times are whole": ([], "src,dst,time,w\n1,2,400.5,1\n", []),
    "dates where times are numbers": ([], "src,dst,time,w\n1,2,2024-01-01,1\n", []),
    "far in the future": ([], "src,dst,time,w\n1,2,1700000000000,1\n", []),
    "node features of nobody": ([], "src,dst,time,w\n1,2,400,1\n", ["--node-features", "nodes.csv"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_and_the_folder_stays(tmp_path: Path, case: str) -> None:
    flags, text, append_flags = BAD[case]
    flags = flags or ["--features", "w"] * (case == "a column is missing")
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text(text)
    convert(tmp_path / "a.csv", tmp_path / "log", *flags)
    before, around = checksums(tmp_path / "log"), sorted(tmp_path.iterdir())
    refusal("append", tmp_path / "b.csv", tmp_path / "log", *append_flags)
    assert checksums(tmp_path / "log") == before
    assert sorted(tmp_path.iterdir()) == around


TYPED_BAD: dict[str, dict[str, list[object]]] = {
    "text ids where numbers are": {"src": ["x"], "dst": ["y"], "time": [400], "w": [0.5]},
    "timestamps where numbers are": {
        "src": [1],
        "dst": [2],
        "time": [date(2024, 1, 1)],
        "w": [1.0],
    },
    "a list where a number is": {"src": [1], "dst": [2], "time": [400], "w": [[1.0, 2.0]]},
    "an early event": {"src": [1], "dst": [2], "time": [40], "w": [1.0]},
}


@pytest.mark.parametrize("case", TYPED_BAD)
def test_typed_files_that_do_not_fit_are_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    pl.DataFrame(TYPED_BAD[case]).write_parquet(tmp_path / "b.parquet")
    convert(tmp_path / "a.csv", tmp_path / "log", "--features", "w")
    before = checksums(tmp_path / "log")
    refusal("append", tmp_path / "b.parquet", tmp_path / "log")
    assert checksums(tmp_path / "log") == before


def test_numbers_are_refused_as_ids_of_a_log_whose_ids_are_text(tmp_path: Path) -> None:
    first, second = in_parts(log_frame(), tmp_path / "raw", 2)
    convert(first, tmp_path / "log", *FLAGS)
    pl.read_csv(second).with_columns(who=pl.lit(1)).write_parquet(tmp_path / "b.parquet")
    refusal("append", tmp_path / "b.parquet", tmp_path / "log")


def test_folders_that_cannot_grow_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(GOOD)
    refusal("append", tmp_path / "b.csv", tmp_path / "none")
    done = run_here(main, "synth", tmp_path / "synth", "--events", 100)
    assert done.returncode == 0
    refusal("append", tmp_path / "b.csv", tmp_path / "synth")
    refusal("append", tmp_path / "b.csv")


def test_frames_are_appended_from_python(tmp_path: Path) -> None:
    frame = log_frame()
    names = {"src": "who", "dst": "whom", "time": "when", "label": "label", "features": ["w", "v"]}
    whole = data_prep.convert(frame, tmp_path / "whole", **names)
    data_prep.convert(frame[:2000], tmp_path / "log", **names)
    data_prep.append(frame[2000:2500], tmp_path / "log")
    log = data_prep.append(frame[2500:].to_arrow(), tmp_path / "log")
    assert events_of(log).equals(events_of(whole))
    assert len(data_prep.append(frame[:0], tmp_path / "log")) == len(frame)
    with refused():
        data_prep.append(frame[:10], tmp_path / "log")
    with refused():
        data_prep.append(frame[:10], tmp_path / "log", sorted=True)
