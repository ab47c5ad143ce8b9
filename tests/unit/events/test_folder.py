"""A staged folder appears whole or not at all."""

from pathlib import Path

import pytest

from tests.support.event_logs import random_log
from tests.support.sentences import refused
from tpnet_dist.events import EventLog
from tpnet_dist.events.folder import staged_file, staged_folder


def test_a_staged_folder_appears_whole_and_leaves_nothing_beside_it(tmp_path):
    target = tmp_path / "deep" / "data"
    with staged_folder(target, overwrite=False) as staging:
        (staging / "file").write_text("x")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["file"]
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_staged_folder_leaves_nothing(tmp_path, error):
    with pytest.raises(error), staged_folder(tmp_path / "data", overwrite=False) as staging:
        (staging / "file").write_text("x")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_failed_overwrite_keeps_the_old_folder(tmp_path):
    log = random_log(tmp_path / "data", 40, 5)
    with pytest.raises(RuntimeError), staged_folder(tmp_path / "data", overwrite=True):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]
    assert len(list(log.verify())) == 2


def test_an_existing_folder_is_refused_but_an_empty_one_is_used(tmp_path):
    random_log(tmp_path / "data", 40, 5)
    with (
        refused(),
        staged_folder(tmp_path / "data", overwrite=False),
    ):
        pass
    (tmp_path / "empty").mkdir()
    with staged_folder(tmp_path / "empty", overwrite=False) as staging:
        (staging / "file").write_text("x")
    assert (tmp_path / "empty" / "file").read_text() == "x"


def test_overwrite_replaces_data_folders_only(tmp_path):
    random_log(tmp_path / "data", 40, 5)
    with staged_folder(tmp_path / "data", overwrite=True) as staging:
        random_log(staging, 70, 5)
    assert len(EventLog(tmp_path / "data")) == 70
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    with (
        refused(),
        staged_folder(tmp_path / "home", overwrite=True),
    ):
        pass
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path):
    target = tmp_path / "data"
    with staged_folder(target, overwrite=False) as staging:
        (staging / "file").write_text("first")
        with (
            refused(),
            staged_folder(target, overwrite=False),
        ):
            pass
    assert (target / "file").read_text() == "first"


def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path):
    leftover = tmp_path / ".data.partial"
    leftover.mkdir()
    (leftover / "stale").write_text("x")
    (tmp_path / ".data.lock").touch()
    with staged_folder(tmp_path / "data", overwrite=False) as staging:
        assert list(staging.iterdir()) == []
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


def test_a_replacement_killed_between_its_renames_keeps_the_old_folder(tmp_path):
    log = random_log(tmp_path / "data", 40, 5)
    (tmp_path / "data").rename(tmp_path / ".data.replaced")
    with refused(), staged_folder(log.folder, overwrite=False):
        pass
    assert len(list(log.verify())) == 2


def test_a_folder_finished_by_another_run_meanwhile_is_not_replaced(tmp_path):
    """The check for an existing folder happens under the lock."""
    target = tmp_path / "data"
    late = staged_folder(target, overwrite=False)
    with staged_folder(target, overwrite=False) as staging:
        (staging / "file").write_text("first")
    with refused(), late:
        pass
    assert (target / "file").read_text() == "first"


def test_a_stop_while_the_folder_is_made_leaves_nothing(tmp_path, monkeypatch):
    """A signal that comes during the system call is heard right after it."""
    make = Path.mkdir

    def make_then_stop(path, *args, **options):
        make(path, *args, **options)
        if path.name == ".data.partial":
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_then_stop)
    with pytest.raises(KeyboardInterrupt), staged_folder(tmp_path / "data", overwrite=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_beside_it_is_refused_and_kept(tmp_path):
    for name in (".data.partial", ".data.replaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "letter").write_text("dear")
    with refused(), staged_folder(tmp_path / "data", overwrite=False):
        pass
    (tmp_path / ".data.partial" / "letter").unlink()
    (tmp_path / ".data.partial").rmdir()
    with staged_folder(tmp_path / "data", overwrite=False) as staging:
        (staging / "file").write_text("x")
    (tmp_path / "data" / "file").unlink()
    with refused(), staged_folder(tmp_path / "data", overwrite=False):
        pass
    assert (tmp_path / ".data.replaced" / "letter").read_text() == "dear"
    (tmp_path / ".table.csv.partial").write_text("dear")
    with refused(), staged_file(tmp_path / "table.csv", overwrite=False):
        pass
    assert (tmp_path / ".table.csv.partial").read_text() == "dear"


def test_a_file_in_the_place_of_the_lock_is_kept(tmp_path):
    (tmp_path / ".data.lock").write_text("dear")
    with refused(), staged_folder(tmp_path / "data", overwrite=False):
        pass
    assert (tmp_path / ".data.lock").read_text() == "dear"
