"""A small file appears whole or not at all."""

from pathlib import Path

import pytest

from tpnet_dist.files.atomic_write import atomic_write


def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        with atomic_write(path) as file:
            file.write(content)
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half of the th")
        raise RuntimeError
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]
