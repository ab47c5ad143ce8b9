"""Stored JSON is what was written, or it is refused."""

import json

import pytest

from tpnet_dist.errors import InputError
from tpnet_dist.files.stored_json import (
    is_intact_line,
    parse_json,
    require_intact,
    sealed,
    sealed_line,
)

CONTENT = {"b": [1, 2.5, None], "a": {"x": True, "y": float("nan")}}


def test_a_sealed_object_is_intact_however_it_is_laid_out() -> None:
    stored = sealed(CONTENT)
    for text in (json.dumps(stored, indent=2), json.dumps(stored, sort_keys=True)):
        require_intact(parse_json(text))


def test_any_other_value_is_noticed() -> None:
    text = json.dumps(sealed(CONTENT))
    for before, after in (("2.5", "2.25"), ("true", "false"), ('"b"', '"c"'), ("NaN", "0.5")):
        with pytest.raises(InputError, match="does not fit the content"):
            require_intact(parse_json(text.replace(before, after)))


def test_every_single_bit_that_a_disk_changes_is_noticed() -> None:
    """Also in the name of the checksum."""
    stored = {"b": 2.5, "id": "0" * 64, "a": {"x": True}}
    text = json.dumps(sealed(stored)).encode()
    for bit in range(8 * len(text)):
        changed = bytearray(text)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            require_intact(parse_json(bytes(changed)))


def test_a_missing_checksum_is_noticed() -> None:
    with pytest.raises(InputError, match="checksum is missing"):
        require_intact(parse_json(json.dumps(sealed(CONTENT)).replace('"checksum"', '"chebksum"')))


def test_a_line_has_a_checksum_of_its_own() -> None:
    line = sealed_line(CONTENT)
    assert is_intact_line(parse_json(line))
    assert not is_intact_line(parse_json(line.replace("2.5", "2.75")))
    assert not is_intact_line(CONTENT), "a missing one is damage"


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, b"\xff", "{", '{"a": 1} x'])
def test_what_is_no_json_is_one_error(text: str | bytes) -> None:
    with pytest.raises(InputError):
        parse_json(text)
