"""Limits of containers and jobs: the least of all groups counts, and pages of files are not in use."""

import sys
from pathlib import Path

import pytest
import torch

from tpnet_dist.distributed import host_memory
from tpnet_dist.distributed.memory_limit import bytes_within_limit

SECOND = ("memory.max", "memory.current", "inactive_file")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def put_in_group(root: Path, line: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"5:devices:/\n{line}\n")


def limit(folder: Path, names: tuple[str, str, str], most: int | str, used: int, files: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{most}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {files}\nactive_file 7\n")


def test_a_group_leaves_its_limit_less_what_is_used_but_for_pages_of_files(tmp_path: Path) -> None:
    put_in_group(tmp_path, "0::/job")
    limit(tmp_path / "sys/fs/cgroup/job", SECOND, 1000, used=700, files=250)
    assert bytes_within_limit(tmp_path) == 550


def test_the_least_of_all_groups_counts(tmp_path: Path) -> None:
    put_in_group(tmp_path, "0::/user/job/step")
    groups = tmp_path / "sys/fs/cgroup"
    limit(groups / "user/job/step", SECOND, "max", used=600)
    limit(groups / "user/job", SECOND, 1000, used=700)
    limit(groups / "user", SECOND, 5000, used=900)
    assert bytes_within_limit(tmp_path) == 300
    limit(groups / "user", SECOND, 5000, used=5100)
    assert bytes_within_limit(tmp_path) == 0, "not less than nothing"


def test_the_first_version_of_groups_is_read_too(tmp_path: Path) -> None:
    put_in_group(tmp_path, "4:cpu,memory:/slurm/job\n0::/")
    groups = tmp_path / "sys/fs/cgroup/memory"
    limit(groups / "slurm/job", FIRST, 1000, used=400, files=100)
    limit(groups, FIRST, 9223372036854771712, used=5000)
    assert bytes_within_limit(tmp_path) == 700


@pytest.mark.parametrize(
    ("line", "folder", "names"), [("0::/", "", SECOND), ("4:memory:/x", "memory", FIRST)]
)
def test_a_container_may_see_its_own_group_on_top(
    tmp_path: Path, line: str, folder: str, names: tuple[str, str, str]
) -> None:
    put_in_group(tmp_path, line)
    limit(tmp_path / "sys/fs/cgroup" / folder, names, 1000, used=400)
    assert bytes_within_limit(tmp_path) == 600


def test_without_groups_or_limits_there_is_no_limit(tmp_path: Path) -> None:
    assert bytes_within_limit(tmp_path) == sys.maxsize
    put_in_group(tmp_path, "0::/job")
    assert bytes_within_limit(tmp_path) == sys.maxsize
    limit(tmp_path / "sys/fs/cgroup/job", SECOND, "max", used=400)
    assert bytes_within_limit(tmp_path) == sys.maxsize


def test_the_host_gives_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "bytes_within_limit", lambda: 1000)
    assert host_memory.free_bytes(torch.device("cpu")) == 1000
    monkeypatch.setattr(host_memory, "bytes_within_limit", lambda: sys.maxsize)
    assert host_memory.free_bytes(torch.device("cpu")) > 1000
