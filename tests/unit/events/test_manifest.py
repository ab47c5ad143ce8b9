"""A manifest that says what none of ours says is refused in one sentence, whatever its checksum; old ones are
read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.event_logs import write_log
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventLog
from tpnet_dist.events.manifest import MANIFEST_NAME, read_manifest
from tpnet_dist.files.stored_json import checksum_of

WRONG: list[Any] = [None, 0, -1, 1e400, 0.5, "", "x", True, [], {}, [1], {"file": "x"}, "../../etc/passwd"]
OPTIONAL = {"edge_features", "node_features", "preparation", "source"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    features = np.ones((40, 2), np.float32)
    write_log(tmp_path, np.arange(40) % 5, np.arange(40) % 3, range(40), edge_features=features)
    return tmp_path


def rewrite(folder: Path, place: tuple[str | int, ...], value: Any) -> bool:
    """With a checksum that fits; whether it says something else now."""
    path = folder / MANIFEST_NAME
    content = json.loads(path.read_text())
    del content["checksum"]
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    before, inner[place[-1]] = inner[place[-1]], value
    path.write_text(json.dumps({**content, "checksum": checksum_of(content)}))
    return repr(before) != repr(value)


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return (
        [at, *(place for key, each in inner for place in places(each, (*at, key)))]
        if at
        else [place for key, each in inner for place in places(each, (key,))]
    )


def test_every_field_with_a_wrong_value_is_refused_by_name_or_means_the_same(folder: Path) -> None:
    path = folder / MANIFEST_NAME
    whole = path.read_text()
    right = json.loads(whole)
    for place in places(right):
        for wrong in WRONG:
            if place[0] in ("checksum", "source") or (wrong is None and place[-1] in OPTIONAL):
                continue
            if not rewrite(folder, place, wrong):
                continue
            try:
                log = EventLog(folder)
                list(log.verify())
            except InputError as error:
                assert str(folder) in str(error) and ";" in str(error)
            else:
                # such as first_time, or what is said for people
                assert place[0] in ("has_labels", "bipartite", "time_unit"), (
                    place,
                    wrong,
                )
            path.write_text(whole)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("edge_features",), 0, "edge_features is 0, but must be an object; restore it or convert again"),
        (("events",), True, "events is true, but must be a whole number"),
        (
            ("shards", 0, "file"),
            "../x.parquet",
            "a file is '../x.parquet', but must be the name of a data file",
        ),
        (("edge_features", "width"), 0, "width of edge_features.npy is 0, but must be at least 1"),
        (("last_time",), -5, "last_time is -5, but must be at least first_time, 0"),
    ],
)
def test_the_sentence_names_file_field_and_remedy(
    folder: Path, place: tuple[str | int, ...], value: Any, sentence: str
) -> None:
    rewrite(folder, place, value)
    with pytest.raises(InputError) as refused:
        read_manifest(folder)
    assert f"{folder / MANIFEST_NAME}: {sentence}" in str(refused.value)


def test_features_that_the_manifest_does_not_list_are_refused(folder: Path) -> None:
    rewrite(folder, ("edge_features",), None)
    with pytest.raises(
        InputError, match=r"edge_features\.npy: lies in the folder, but the manifest does not list"
    ):
        EventLog(folder)


def test_a_manifest_of_the_first_version_is_read(folder: Path) -> None:
    rewrite(folder, ("format_version",), 1)
    log = EventLog(folder)
    assert (len(log), log.manifest.preparation) == (40, None)
