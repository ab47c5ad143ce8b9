"""JSON read so that damage is one sentence, and stored with a checksum of the content in it."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

from tpnet_dist.errors import InputError

CHECKSUM_KEY = "checksum"
"""The key of the checksum, which covers all other keys."""
LINE_CHECKSUM_KEY = "crc"
"""The same of an object that is one line among many."""


def parse_json(text: bytes | str) -> Any:  # noqa: ANN401 — JSON has no type
    """InputError for whatever is no JSON, without the file's name and the remedy, which the caller knows."""
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError:
        raise InputError("nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, a number of thousands of digits
        raise InputError(f"not complete JSON ({error})") from None


def checksum_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of all keys but the checksum's own, however they are laid out in a file."""
    return hashlib.sha256(_canonical(content, CHECKSUM_KEY)).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with its checksum."""
    return {**content, CHECKSUM_KEY: checksum_of(content)}


def require_intact(content: object) -> None:
    """InputError, without the file's name and the remedy, for content other than what was sealed. A missing
    checksum is damage too: one bit of its key may have changed."""
    if not isinstance(content, Mapping):
        return  # what the content must be is its reader's to say
    if CHECKSUM_KEY not in content:
        raise InputError(f"{CHECKSUM_KEY} is missing, so the file was changed")
    stored = content[CHECKSUM_KEY]
    if stored != checksum_of(content):
        raise InputError(f"checksum {stored!r:.80} does not fit the content, so the file was changed")


def sealed_line(content: Mapping[str, Any]) -> str:
    """Return an object as one line of JSON with its checksum: of 32 bits, since there are many lines."""
    return json.dumps({**content, LINE_CHECKSUM_KEY: _line_checksum(content)})


def is_intact_line(content: Mapping[str, Any]) -> bool:
    """Whether an object of a line is what was written. A missing checksum is damage too."""
    return content.get(LINE_CHECKSUM_KEY) == _line_checksum(content)


def _line_checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(_canonical(content, LINE_CHECKSUM_KEY)):08x}"


def _canonical(content: Mapping[str, Any], without: str) -> bytes:
    kept = {key: value for key, value in content.items() if key != without}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
