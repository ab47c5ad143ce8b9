"""The scalability study at a size of seconds: what it measures adds up, and it goes on where it stopped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import planner, scalability
from tests.support.command_line import Done, run_here, sentence_of

EDGES, STEPS, BATCH = 2400, 1, 200


def study_args(out: Path, *args: str) -> list[object]:
    own = ["--edges", EDGES, "--steps", STEPS, "--out", out, "--logs", out / "logs", "--device", "cpu"]
    return [*own, *args]


def planner_args(study: Path, *args: str) -> list[object]:
    return ["--study", study, "--logs", study / "logs", *args]


def run_study(out: Path, *args: str) -> Done:
    """Its cases run in processes of their own."""
    return run_here(scalability.main, *study_args(out, *args))


def run_planner(study: Path, *args: str) -> Done:
    return run_here(planner.main, *planner_args(study, *args))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scalability")
    args = study_args(out, "--ranks", "1", "--rival-seconds", "100")
    command = [sys.executable, "-m", "benchmarks.scalability", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


def lines_of(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "figures.jsonl").read_text().splitlines()]


def test_every_event_is_streamed_and_every_contestant_measured(study: Path) -> None:
    ours, *rivals = lines_of(study)
    steps = 2 * (STEPS + 2) * BATCH
    assert ours["recorded_events"] == EDGES - steps, "the steps record the others"
    assert ours["peak_bytes"] > ours["rows_bytes"] > 0  # type: ignore[operator]
    assert ours["rows_resident_bytes"] >= ours["rows_bytes"], "of the process, before rows and after"  # type: ignore[operator]
    assert [rival["contestant"] for rival in rivals] == ["dense", "dense-kept", "stored"]
    for rival in rivals:
        assert (rival["outcome"], rival["events"]) == ("finished", EDGES)


def test_the_table_tells_how_many_times_faster_than_the_dense_update_we_are(study: Path) -> None:
    ours, dense, kept, _ = lines_of(study)
    heading, _, first, *_ = [line.split(" | ") for line in (study / "table.md").read_text().splitlines()]
    columns = {"× faster than dense": dense, "× faster than dense, buffers kept": kept}
    for column, rival in columns.items():
        times = float(ours["events_per_second"]) * float(rival["seconds"]) / EDGES  # type: ignore[arg-type]
        assert first[heading.index(column)] == f"{times:,.1f}"


def test_a_table_and_figures_are_left(study: Path) -> None:
    rows = (study / "table.md").read_text().splitlines()
    assert len(rows) == 2 + 4
    for name in ("scalability", "cost_per_event"):
        assert (study / f"{name}.png").stat().st_size > 10_000
        assert (study / f"{name}.svg").read_text().count("<svg") == 1


def test_the_same_command_measures_only_what_is_missing(study: Path) -> None:
    before = lines_of(study)
    again = run_study(study, "--ranks", "1", "2", "--rival-seconds", "100")
    assert again.returncode == 0, again.stderr
    assert "[2 of 5] 2e+03 edges, 2 ranks" in again.stderr
    assert "[1 of 5]" not in again.stderr and "[3 of 5]" not in again.stderr
    results = json.loads(again.stdout.splitlines()[-1])["results"]["figures"]
    assert [line for line in results if line["ranks"] == 1] == before
    [two] = [line for line in results if line["ranks"] == 2]
    assert lines_of(study) == [*before, two]
    assert two["exchanged"]["propagation"]["bytes_sent"] > 0


def test_the_planner_predicts_every_byte(study: Path) -> None:
    assert run_study(study, "--ranks", "1", "2", "--rival-seconds", "100").returncode == 0
    done = run_planner(study, "--device", "cpu", "--report-only")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout.splitlines()[-1])["results"]["figures"]
    assert (one["ranks"], two["ranks"]) == (1, 2)
    assert two["borrowed_rows"]["held"]["predicted"] == two["borrowed_rows"]["held"]["measured"]
    for phase in ("propagation_bytes", "training_bytes", "scoring_bytes"):
        assert one[phase]["predicted"] == one[phase]["measured"] == 0
        assert two[phase]["predicted"] == two[phase]["measured"] > 0


def test_what_the_planner_misses_is_its_exit_code(study: Path) -> None:
    missed = run_planner(study, "--device", "h100")
    assert (missed.returncode, missed.stderr) == (1, "")
    table, line = missed.stdout, json.loads(missed.stdout.splitlines()[-1])
    assert "Not near enough in every case: " in table
    assert not line["results"]["all_within"]["training_ms"]


def test_of_larger_logs_that_were_recorded_by_node_all_but_bytes_is_compared(
    study: Path, tmp_path: Path
) -> None:
    lines = [line for line in lines_of(study) if line["contestant"] == "ours"]
    assert lines[1]["layout"] == "columns", "as they cost less"
    lines[1]["layout"] = "nodes"
    (tmp_path / "figures.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "logs").symlink_to(study / "logs")
    done = run_planner(tmp_path, "--device", "cpu", "--report-only", "--most-edges", "10")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout.splitlines()[-1])["results"]["figures"]
    for phase in ("propagation_bytes", "training_bytes", "scoring_bytes"):
        assert one[phase]["predicted"] == 0, "one rank sends nothing, whatever the log"
        assert two[phase] is None
    assert "–" in done.stdout
    assert two["memory"]["predicted"] > 0 and two["scoring_ms"]["predicted"] > 0


def test_without_a_case_to_compare_the_planner_says_so(study: Path, tmp_path: Path) -> None:
    rivals = [line for line in lines_of(study) if line["contestant"] != "ours"]
    (tmp_path / "figures.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in rivals))
    refused = run_here(planner.main, *planner_args(tmp_path, "--device", "cpu"))
    sentence_of(refused, planner.PROGRAM)


def test_a_rival_stops_when_its_time_is_used_up(study: Path, tmp_path: Path) -> None:
    done = run_study(study, "--ranks", "1", "--rivals", "stored", "--rival-seconds", "0")
    assert done.returncode == 0, done.stderr
    stored = json.loads(done.stdout.splitlines()[-1])["results"]["figures"][-1]
    assert stored["outcome"] == "out of time"
    assert stored["events"] == BATCH
    assert "out of time after 8.33% with " in (study / "table.md").read_text()
    [ours] = json.loads(done.stdout.splitlines()[-1])["results"]["figures"][:-1]
    assert ours in lines_of(study)[:1], "what rivals may take does not concern us"


@pytest.mark.slow
def test_a_rival_without_hope_is_marked_and_why(study: Path) -> None:
    args = ("--ranks", "1", "--edges", str(EDGES), str(2 * EDGES), "--rivals", "stored")
    assert run_study(study, *args, "--rival-seconds", "0", "--rivals-up-to", "1").returncode == 0
    last = (study / "table.md").read_text().splitlines()[-1]
    assert "| not tried: out of time at 2e3 |" in last
    assert run_study(study, *args, "--rival-memory-gib", "0.01").returncode == 0
    last = (study / "table.md").read_text().splitlines()[-1]
    assert "| out of memory at 2e3 already |" in last
    tried = [line for line in lines_of(study) if line["contestant"] == "stored"]
    assert {line["edges"] for line in tried} == {EDGES}
    # up to some size who ran out of time is tried all the same: it may run out of memory there
    assert run_study(study, *args, "--rival-seconds", "0", "--rivals-up-to", str(2 * EDGES)).returncode == 0
    last = (study / "table.md").read_text().splitlines()[-1]
    assert "out of time after 4.17% with " in last


@pytest.mark.parametrize("text", ['{"edges": 24', '{"edges": 2400, "contestant": "ours", "ranks": 1}'])
def test_a_damaged_or_older_study_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "figures.jsonl").write_text(f"{text}\n")
    refused = run_here(scalability.main, *study_args(tmp_path))
    sentence_of(refused, scalability.PROGRAM)
    assert (tmp_path / "figures.jsonl").read_text() == f"{text}\n", "nothing is lost"


@pytest.mark.parametrize(
    "args",
    [
        ["--edges", "1200"],
        ["--edges", "0"],
        ["--ranks", "0"],
        ["--rival-seconds", "nan"],
        ["--rival-memory-gib=-1"],
    ],
)
def test_what_cannot_be_studied_is_one_sentence(tmp_path: Path, args: list[str]) -> None:
    refused = run_here(scalability.main, *study_args(tmp_path, *args))
    sentence_of(refused, scalability.PROGRAM)
    assert not (tmp_path / "figures.jsonl").exists()
