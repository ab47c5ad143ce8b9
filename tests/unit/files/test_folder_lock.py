"""A lock changes nothing but itself."""

from pathlib import Path

import pytest

from tpnet_dist.errors import InputError
from tpnet_dist.files.folder_lock import folder_lock


def test_a_lock_that_is_a_link_is_refused_and_its_target_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("words")
    (tmp_path / ".data.lock").symlink_to(tmp_path / "precious")
    refusal = pytest.raises(InputError, match=r"\.data\.lock: the lock .* is a symbolic link; remove it")
    with refusal, folder_lock(tmp_path / "data"):
        raise AssertionError("it is not held")
    assert (tmp_path / "precious").read_text() == "words"
