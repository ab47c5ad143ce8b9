"""Which of the paper's datasets a folder is, and in what it is not the paper's."""

from pathlib import Path

from benchmarks.study_logs import StudyLog, differences, find_logs
from tests.support.event_logs import random_log
from tests.support.sentences import refused


def small(folder: Path) -> Path:
    random_log(folder, num_events=40, num_nodes=9)
    return folder


def test_a_folder_of_data_folders_gives_those_of_the_paper_in_its_order(tmp_path: Path) -> None:
    for name in ("uci", "CanParl", "mine", "wikipedia"):
        small(tmp_path / name)
    (tmp_path / "enron").mkdir()  # no data folder
    assert find_logs((str(tmp_path),)) == [
        StudyLog("wikipedia", tmp_path / "wikipedia"),
        StudyLog("uci", tmp_path / "uci"),
        StudyLog("can_parl", tmp_path / "CanParl"),
    ]


def test_a_data_folder_may_have_another_name_if_its_preset_is_told(tmp_path: Path) -> None:
    folder = small(tmp_path / "messages")
    assert find_logs((f"uci={folder}",)) == [StudyLog("uci", folder)]
    with refused():
        find_logs((str(folder),))
    with refused():
        find_logs((str(tmp_path),))


def test_one_dataset_given_twice_is_refused(tmp_path: Path) -> None:
    first, second = small(tmp_path / "a" / "uci"), small(tmp_path / "b" / "UCI")
    with refused():
        find_logs((str(first), str(second)))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused():
        find_logs((str(tmp_path / "uci"),))


def test_a_log_that_is_not_the_papers_is_told_to_be_another(tmp_path: Path) -> None:
    folder = small(tmp_path / "wikipedia")
    assert differences("wikipedia", folder) == (
        "40 events (the paper: 157,474), 9 nodes (the paper: 9,227), no edge features (the paper: 172)"
    )
    assert differences("mine", folder) == differences("wikipedia", tmp_path / "gone") == ""
