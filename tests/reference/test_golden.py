"""The golden command: what holds passes, what does not fails, and no file brings it out of step.

Shape letters: N nodes, B queries, L layers, P = 2L layers of a pair.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.command_line import ROOT
from tests.rank_pool import RankPools
from tests.reference import golden
from tests.reference.golden_file import Array
from tests.reference.literal import LiteralMemory
from tests.shared_folder import shared_folder

Arrays = dict[str, Array]


def published(name: str) -> Path:
    path = shared_folder() / "reference" / f"{name}_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    return path


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("name", ["uci", "canparl"])
def test_published_numbers_are_reproduced(rank_pools: RankPools, name: str, num_ranks: int) -> None:
    outcomes = golden.compare(published(name), None if num_ranks == 1 else rank_pools[num_ranks])
    assert len(outcomes) == 7
    assert all(outcome.holds for outcome in outcomes), outcomes


# ---- a small file of our own, so that the command is tested where the published numbers are absent ---------


def small_golden(hops: int = 2, width: int = 5, decay: float = 1e-8, first_time: float = 1.3e9) -> Arrays:
    """Recorded by the literal algorithm: 40 events of 9 nodes and a padding node, 30 of them warm."""
    draw = np.random.default_rng(1)
    src, dst = draw.integers(1, 10, (2, 40))
    time = first_time + np.sort(draw.integers(0, 20, 40)) * 1e6
    features = draw.standard_normal((10, width)).astype(np.float32)
    memory = LiteralMemory(10, width, hops, decay, "decay", torch.from_numpy(features))
    for start in range(0, 30, 6):
        columns = (torch.from_numpy(column[start : start + 6]) for column in (src, dst, time))
        memory.record(*columns)
    rows_NLD = memory.rows_at(time[29]).numpy()
    query_src, query_dst, query_neg = src[30:36], dst[30:36], draw.integers(1, 10, 6)
    pair_BPD = np.concatenate([rows_NLD[query_src], rows_NLD[query_dst]], axis=1)
    arrays = {"src": src, "dst": dst, "time": time, "edge_id": np.arange(1, 41), "H0": features}
    arrays |= {"decay": decay, "batch_size": 6, "num_neighbors": 3, "hops": hops, "width": width}
    arrays |= {"warm_batches": 5, "memory_time_after_warm": time[29], "query_time": time[30:36]}
    arrays |= {"query_src": query_src, "query_dst": query_dst, "query_neg": query_neg}
    arrays |= {f"memory_after_warm_layer{layer}": rows_NLD[:, layer] for layer in range(1, hops + 1)}
    arrays["raw_pair_features_src_dst"] = (pair_BPD @ pair_BPD.transpose(0, 2, 1)).reshape(6, -1)
    return arrays | neighbors_of(arrays, [*query_src, *query_dst, *query_neg], [*time[30:36]] * 3)


def neighbors_of(arrays: Arrays, nodes: list[int], times: list[float]) -> Arrays:
    """The last three entries strictly before, looked for one by one; an event gives one at each end."""
    found = []
    for node, before in zip(nodes, times, strict=True):
        events = zip(arrays["src"], arrays["dst"], arrays["edge_id"], arrays["time"], strict=True)
        met = [
            (other, edge, time)
            for src, dst, edge, time in events
            for end, other in ((src, dst), (dst, src))
            if end == node and time < before
        ]
        found.append(([(0, 0, 0.0)] * 3 + met)[-3:])
    names = ("neighbor_ids", "neighbor_edge_ids", "neighbor_times")
    return {name: np.array(found)[:, :, place] for place, name in enumerate(names)}


def saved(folder: Path, arrays: Arrays) -> Path:
    path = folder / "small.npz"
    np.savez(path, **arrays)
    return path


def exit_code_of(*words: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        golden.main([*map(str, words)])
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    "settings",
    [{}, {"hops": 1, "width": 1}, {"hops": 4, "decay": 0.0}, {"decay": 1e-4, "first_time": -2e9}],
    ids=["plain", "narrow", "deep", "decays-to-nothing"],
)
def test_other_hops_widths_decays_and_times_are_taken(
    tmp_path: Path, settings: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(saved(tmp_path, small_golden(**settings))) == 0
    assert "too far" not in capsys.readouterr().out


@pytest.mark.parametrize("num_ranks", [3, 4])
def test_shares_of_the_ranks_follow_one_another(
    rank_pools: RankPools, tmp_path: Path, num_ranks: int
) -> None:
    arrays = small_golden()
    shares = rank_pools[num_ranks].run(golden.found_on_rank, saved(tmp_path, arrays))
    for key in ("neighbor_ids", "neighbor_edge_ids", "neighbor_times"):
        np.testing.assert_array_equal(np.concatenate([share[key] for share in shares]), arrays[key])
    rows = np.concatenate([share["memory_after_warm_layer2"] for share in shares])
    assert golden.row_deviation(rows, arrays["memory_after_warm_layer2"]).max() < 1e-6


ALTERED = [
    "memory_after_warm_layer1",
    "memory_after_warm_layer2",
    "neighbor_ids",
    "neighbor_edge_ids",
    "neighbor_times",
    "raw_pair_features_src_dst",
]


@pytest.mark.parametrize("key", ALTERED)
def test_one_altered_number_fails(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = small_golden()
    entries = arrays[key] = arrays[key].copy()
    place = np.unravel_index(np.abs(entries).argmax(), entries.shape)
    entries[place] = entries[place] * 1.001 + 1
    assert exit_code_of(saved(tmp_path, arrays)) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "too far" in line]
    assert len(lines) == 1
    assert f" {place[0]} " in lines[0], "the line names the place"


def test_a_number_that_is_none_fails(tmp_path: Path) -> None:
    arrays = small_golden()
    arrays["memory_after_warm_layer1"][3, 0] = np.nan
    assert exit_code_of(saved(tmp_path, arrays)) == 1


def test_an_altered_published_file_fails(tmp_path: Path) -> None:
    with np.load(published("uci")) as stored:
        arrays = {key: stored[key] for key in stored.files if not key.startswith("weights/")}
    rows = arrays["memory_after_warm_layer2"]
    place = np.unravel_index(np.abs(rows).argmax(), rows.shape)
    rows[place] *= 1 + 2e-5
    assert exit_code_of(saved(tmp_path, arrays)) == 1


def without(key: str) -> Arrays:
    return {name: array for name, array in small_golden().items() if name != key}


UNUSABLE = {
    "no-features": (without("H0"), "lacks H0"),
    "no-rows": (without("memory_after_warm_layer2"), "lacks memory_after_warm_layer2"),
    "no-hops": (small_golden() | {"hops": 0}, "hops is 0"),
    "strange-id": (small_golden() | {"src": np.full(40, 10)}, "source id 10 is not within 0…9"),
    "strange-query": (small_golden() | {"query_neg": np.full(6, -1)}, "query's id is not within 0…9"),
    "short-column": (small_golden() | {"dst": np.ones(39, int)}, "dst has shape (39,)"),
    "wrong-width": (small_golden() | {"width": 6}, "H0 has shape (10, 5)"),
    "too-many-warm": (small_golden() | {"warm_batches": 7}, "of 40 events 42 are warm"),
    "time-backwards": (small_golden() | {"time": np.arange(40.0)[::-1]}, "is before"),
}


@pytest.mark.parametrize(("arrays", "complaint"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_unusable_file_gets_one_sentence(
    tmp_path: Path, arrays: Arrays, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(saved(tmp_path, arrays), "--ranks", 2) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "content", [b"", b"no zip at all", b"PK\x03\x04 torn"], ids=["empty", "text", "torn"]
)
def test_what_is_not_a_golden_file_gets_one_sentence(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.npz").write_bytes(content)
    assert exit_code_of(tmp_path / "bad.npz") == 2
    assert "is not a readable npz file" in capsys.readouterr().err
    assert exit_code_of(tmp_path / "absent.npz") == 2
    assert exit_code_of(tmp_path) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_command_runs_as_a_user_runs_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.reference.golden",
        saved(tmp_path, small_golden()),
        "--ranks",
        "2",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "small.npz on 2 ranks" in done.stdout
    assert done.stdout.count(" ok") == 6
