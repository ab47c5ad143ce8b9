"""Paths that lead in circles, and pipes where a file is wanted."""

import os
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.config.toml_files import read_layer
from tpnet_dist.evaluation.results import read_results
from tpnet_dist.events.folder import staged_folder
from tpnet_dist.files.user_paths import resolved
from tpnet_dist.training.run_log import RunLog
from tpnet_dist.training.weights_file import read_state


def test_a_link_in_a_circle_is_an_output_nobody_can_write(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert resolved(tmp_path / "circle") == tmp_path / "circle"
    with refused(), staged_folder(tmp_path / "circle", overwrite=False):
        raise AssertionError("it is not made")
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]


@pytest.mark.parametrize("read", [read_layer, read_state, lambda path: read_results(path.parent, path.name)])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refused():
        read(tmp_path / "pipe")


def test_a_pipe_in_the_place_of_metrics_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    with refused():
        RunLog(tmp_path)
