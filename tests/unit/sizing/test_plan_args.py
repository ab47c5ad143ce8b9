"""`python -m tpnet_dist.plan`: what it says, for people and for programs, and what it refuses."""

import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import run_here, sentence_of
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import train
from tpnet_dist.plan import PROGRAM, main, parse_plan

SMALL = flags_of(small_config(Path("unused")))

REFUSED = (
    "",
    "--events 0",
    "--events 1e6 --ranks 0",
    "--events 1e6 --data there",
    "--events 1e6 --device rtx3091",
    "--events 1e6 --figure curve.foo",
    "--calibrate here",
    "--events 1e6 --memory.hop 2",
    "--events 1e6 --training.precision float64",
    "--events 1e10",
    "--data nowhere",
)


@pytest.mark.parametrize("args", REFUSED)
def test_bad_args_get_one_sentence_and_exit_code_2(args: str) -> None:
    sentence_of(run_here(main, *args.split()), PROGRAM)


def test_settings_of_a_run_are_flags_here_too() -> None:
    own, config = parse_plan(["--events", "1e8", "--preset", "uci", "--memory.hops", "2", "--ranks", "8"])
    assert (own.events, own.ranks) == (100_000_000, 8)
    assert (config.memory.hops, config.memory.decay) == (2, 1e-7)


def test_a_plan_says_what_it_takes_and_how_long() -> None:
    done = run_here(main, "--events", "1e8", "--ranks", "4", *SMALL)
    assert done.returncode == 0, done.stderr
    for text in (
        "100,000,000 events, 2,000,000 nodes",
        "rows of its nodes",
        "Largest log",
        "limited by",
        "1024",
    ):
        assert text in done.stdout


def test_without_a_device_it_is_this_machine() -> None:
    plan = json.loads(run_here(main, "--events", "1e6", "--json", *SMALL).stdout)
    assert plan["device"].startswith(f"this machine's CPU, {os.cpu_count()} cores")
    assert plan["ranks"] == 1
    named = json.loads(run_here(main, "--events", "1e6", "--device", "a100", "--json", *SMALL).stdout)
    assert named["ranks"] == 4


def test_steps_are_those_that_a_run_would_take(tmp_path: Path) -> None:
    folder = small_log(tmp_path / "log")
    for more in ((), ("--data.batching", "timestamps"), ("--training.batches-per-step", "3")):
        plan = json.loads(run_here(main, "--data", folder, "--ranks", "1", "--json", *SMALL, *more).stdout)
        check = run_here(train.main, folder, "--check", *SMALL, *more)
        assert check.returncode == 0, check.stderr
        assert f" {plan['steps_per_epoch']:,} steps an epoch" in check.stdout


def test_programs_get_the_same_as_json_and_the_curve_is_drawn(tmp_path: Path) -> None:
    figure = tmp_path / "curve.png"
    done = run_here(main, "--events", "1e6", "--json", "--figure", figure, *SMALL)
    plan = json.loads(done.stdout)
    assert plan["bytes_per_rank"]["total"] == sum(
        value for name, value in plan["bytes_per_rank"].items() if name != "total"
    )
    assert plan["fits"] and plan["remedies"] == []
    assert [point["ranks"] for point in plan["curve"]] == [2**power for power in range(11)]
    assert figure.stat().st_size > 10_000


def test_more_ranks_than_a_batch_has_events_get_larger_batches_and_are_told_so() -> None:
    args = ["--events", "1e6", *SMALL, "--training.batch-size", "200"]
    done = run_here(main, *args, "--ranks", "1000")
    assert "Batches are taken to be of 1,000 events, one for each rank." in done.stdout
    plan = json.loads(run_here(main, *args, "--ranks", "1024", "--json").stdout)
    assert [point["batch_size"] for point in plan["curve"]][-4:] == [200, 256, 512, 1024]
    last = plan["curve"][-1]["events_per_second"]
    assert plan["batch_size"] / plan["step_seconds"] == pytest.approx(last), "as the curve says"
    assert "Batches are taken" not in run_here(main, *args, "--ranks", "200").stdout


def test_a_log_of_a_single_batch_is_counted_too(tmp_path: Path) -> None:
    args = [small_log(tmp_path / "log"), "--ranks", "2", "--device", "cpu", "--json", *SMALL]
    done = run_here(main, *args, "--training.batch-size", "2000")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exchanged_bytes_per_batch"] > 0


def test_without_memory_no_rows_are_exchanged_and_shares_are_those_of_the_settings() -> None:
    args = ["--events", "1e6", "--ranks", "4", "--json", *SMALL, "--memory.enabled", "False"]
    plan = json.loads(run_here(main, *args, "--data.val-share", "0.05", "--data.test-share", "0.05").stdout)
    assert (plan["exchanged_bytes_per_batch"], plan["width"], plan["bytes_per_rank"]["rows"]) == (0, 0, 0)
    assert plan["bytes_per_rank"]["neighbors"] == pytest.approx(10 * 2 * 1e6 * 1.9 / 4, rel=1e-6)


def test_a_data_folder_is_counted(tmp_path: Path) -> None:
    folder = small_log(tmp_path / "log")
    plan = json.loads(run_here(main, folder, "--ranks", "2", "--device", "cpu", "--json", *SMALL).stdout)
    assert plan["exchange_is_counted"] and plan["exchanged_bytes_per_batch"] > 0
    assert plan["events"] == 1200
    by_default = plan["exchanged_bytes_per_batch"]
    args = [folder, "--ranks", "2", "--device", "cpu", "--json", *SMALL, "--memory.run-batches", "1"]
    assert json.loads(run_here(main, *args).stdout)["exchanged_bytes_per_batch"] > by_default
