"""The field's real event logs, converted by the command line, have the published counts."""

import random
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import convert, describe, refusal
from tests.support.shared_folder import shared_folder
from tpnet_dist.events import EventLog
from tpnet_dist.events.split import split_log


@pytest.fixture(scope="module")
def raw() -> Path:
    return shared_folder() / "data"


def counts(folder: Path) -> tuple[int, int, int]:
    summary = describe(folder, "--verify")
    return summary["events"], summary["nodes"], summary["distinct_times"]


def same_events(one: EventLog, other: EventLog) -> bool:
    """Event for event: the same raw ids and the same time since the first event."""
    left, right = one.read(0, len(one)), other.read(0, len(other))
    left_ids, right_ids = (log.raw_ids().column("raw_id").to_numpy() for log in (one, other))
    offset = right_ids.min() - left_ids.min()
    return (
        np.array_equal(left_ids[left.src] + offset, right_ids[right.src])
        and np.array_equal(left_ids[left.dst] + offset, right_ids[right.dst])
        and np.array_equal(one.seconds(left.time), other.seconds(right.time))
    )


def test_uci_is_the_same_log_from_dyglib_and_from_snap(raw: Path, tmp_path: Path) -> None:
    convert(raw / "uci/ml_uci.csv", tmp_path / "dyglib", "--format", "dyglib")
    convert(raw / "uci/CollegeMsg.txt", tmp_path / "snap", "--format", "snap")
    assert counts(tmp_path / "dyglib") == counts(tmp_path / "snap") == (59_835, 1_899, 58_911)
    assert same_events(EventLog(tmp_path / "dyglib"), EventLog(tmp_path / "snap"))


def test_can_parl_is_the_same_log_from_dyglib_and_from_csv(raw: Path, tmp_path: Path) -> None:
    convert(raw / "CanParl/ml_CanParl.csv", tmp_path / "dyglib", "--format", "dyglib")
    convert(raw / "CanParl/CanParl.csv", tmp_path / "csv", "--features", "w")
    assert counts(tmp_path / "dyglib") == counts(tmp_path / "csv") == (74_478, 734, 14)
    dyglib, csv = EventLog(tmp_path / "dyglib"), EventLog(tmp_path / "csv")
    assert same_events(dyglib, csv)
    assert dyglib.edge_features is not None and csv.edge_features is not None
    assert dyglib.edge_features.shape == (74_478, 1)
    assert np.array_equal(dyglib.edge_features, csv.edge_features)
    assert np.array_equal(
        dyglib.edge_features, np.load(raw / "CanParl/ml_CanParl.npy")[1:].astype(np.float32)
    )


def test_yearly_data_takes_a_time_step(raw: Path, tmp_path: Path) -> None:
    year = 365 * 86_400
    convert(raw / "CanParl/ml_CanParl.csv", tmp_path / "data", "--format", "dyglib", "--time-step", str(year))
    log = EventLog(tmp_path / "data")
    assert np.array_equal(np.unique(log.read(0, len(log)).time), np.arange(14) * year)


def test_wikipedia(raw: Path, tmp_path: Path) -> None:
    convert(raw / "wikipedia/wikipedia.csv", tmp_path / "data")
    assert counts(tmp_path / "data") == (157_474, 9_227, 152_757)


def test_bitcoin_keeps_fractional_times_exactly(raw: Path, tmp_path: Path) -> None:
    source = raw / "bitcoinotc/soc-sign-bitcoinotc.csv"
    convert(source, tmp_path / "data", "--features", "2", "--time", "3")
    assert counts(tmp_path / "data") == (35_592, 5_881, 35_592)
    log = EventLog(tmp_path / "data")
    rows = [line.split(",") for line in source.read_text().split()]
    assert log.read(0, len(log)).time.tolist() == [float(row[3]) for row in rows]
    assert log.edge_features is not None
    assert log.edge_features[:, 0].tolist() == [float(row[2]) for row in rows]


def test_mathoverflow_needs_sorting_and_says_where(raw: Path, tmp_path: Path) -> None:
    source = raw / "sx-mathoverflow/sx-mathoverflow.txt.gz"
    refusal("convert", source, tmp_path / "data", "--format", "snap")
    convert(source, tmp_path / "data", "--format", "snap", "--sort")
    assert counts(tmp_path / "data") == (506_550, 24_818, 505_784)


def test_the_split_of_uci_is_the_one_dyglib_makes(raw: Path, tmp_path: Path) -> None:
    convert(raw / "uci/ml_uci.csv", tmp_path / "uci", "--format", "dyglib")
    log = EventLog(tmp_path / "uci")
    events, raw_ids = log.read(0, len(log)), log.raw_ids().column("raw_id").to_numpy()
    src, dst, time = raw_ids[events.src], raw_ids[events.dst], events.time
    val_time, test_time = np.quantile(time, [0.70, 0.85])
    late = set(src[time > val_time]) | set(dst[time > val_time])
    new = list(random.Random(2020).sample(list(late), int(0.1 * len(raw_ids))))
    is_train = (time <= val_time) & ~np.isin(src, new) & ~np.isin(dst, new)
    seen = np.union1d(src[is_train], dst[is_train])
    is_inductive = ~(np.isin(src, seen) & np.isin(dst, seen)) & (time > test_time)
    split = split_log(log)
    assert np.array_equal(split.train.read(0, len(split.train)).index, np.flatnonzero(is_train))
    inductive = split.inductive(split.test)
    assert np.array_equal(inductive.read(0, len(inductive)).index, np.flatnonzero(is_inductive))
    assert (len(split.train), len(inductive)) == (34_352, 5_932)
