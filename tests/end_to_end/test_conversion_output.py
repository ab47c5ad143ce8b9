"""What lies where output is to go is spared unless it may be replaced; output that fails is cleaned up."""

import resource
from pathlib import Path

import pytest

from tests.support.command_line import convert, refusal
from tests.support.raw_files import GOOD, refuse


def test_existing_output_is_kept_unless_told(tmp_path: Path) -> None:
    raw, out = tmp_path / "log.csv", tmp_path / "out"
    raw.write_text(GOOD)
    convert(raw, out)
    manifest = (out / "manifest.json").read_text()
    refusal("convert", raw, out)
    assert (out / "manifest.json").read_text() == manifest
    raw.write_text(GOOD + "3,1,13\n")
    convert(raw, out, "--overwrite")
    assert (out / "manifest.json").read_text() != manifest


def test_overwrite_spares_folders_that_are_not_data_folders(tmp_path: Path) -> None:
    raw, out = tmp_path / "log.csv", tmp_path / "out"
    raw.write_text(GOOD)
    out.mkdir()
    (out / "thesis.tex").write_text("ten years of work")
    refusal("convert", raw, out, "--overwrite")
    assert (out / "thesis.tex").exists()


@pytest.mark.parametrize("manifest", ["{}", None])
def test_overwrite_spares_folders_with_foreign_files(tmp_path: Path, manifest: str | None) -> None:
    raw, out = tmp_path / "log.csv", tmp_path / "out"
    raw.write_text(GOOD)
    convert(raw, out)
    (out / "notes.txt").write_text("mine")
    if manifest is not None:
        (out / "manifest.json").write_text(manifest)
    refusal("convert", raw, out, "--overwrite")
    assert (out / "notes.txt").exists()


def test_an_input_inside_the_output_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "log.csv").write_text(GOOD)
    refusal("convert", out / "log.csv", out, "--overwrite")
    assert (out / "log.csv").exists()


def test_a_failed_overwrite_keeps_the_old_folder(tmp_path: Path) -> None:
    raw, out = tmp_path / "log.csv", tmp_path / "out"
    raw.write_text(GOOD)
    convert(raw, out)
    raw.write_text(GOOD + "1,2,3\n")
    refusal("convert", raw, out, "--overwrite")
    refusal("convert", raw, out)


def test_synth_spares_an_existing_csv(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("mine")
    refusal("synth", tmp_path / "log.csv", "--events", "1e2", "--as-csv")
    assert (tmp_path / "log.csv").read_text() == "mine"


def test_parents_made_for_nothing_go_again(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(GOOD + "1,2,3\n")
    refusal("convert", raw, tmp_path / "a" / "b" / "out")
    assert not (tmp_path / "a").exists()


def test_no_space_left_is_said_and_cleaned_up(tmp_path: Path) -> None:
    """A file-size limit stands in for a full disk: the write fails half-way, as on one."""

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    rows = "\n".join(f"{i % 997},{i % 991},{i}" for i in range(200_000))
    refuse(tmp_path, "src,dst,time\n" + rows, preexec_fn=limit_file_size)


def test_unwritable_output_is_one_sentence(tmp_path: Path) -> None:
    raw = tmp_path / "log.csv"
    raw.write_text(GOOD)
    (tmp_path / "file").write_text("")
    refusal("convert", raw, tmp_path / "file" / "out")
