"""Frozen dataclasses as JSON objects: written plainly, and read so that damage is one sentence."""

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tpnet_dist.errors import InputError

Typed = TypeVar("Typed")

LONGEST_SHOWN = 60
"""Characters of a wrong value in a message."""


def to_json(value: object) -> Any:  # noqa: ANN401 — JSON has no type
    """Fields that are None are left out; in mappings None is a value."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: to_json(each) for name, each in found.items() if each is not None}
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value


def from_json(kind: type[Typed], value: object, name: str = "", *, allow_nan: bool = False) -> Typed:
    """Read a dataclass, or any type its fields may have; keys it does not know are passed over.

    InputError: what is wrong at which key, without the file's name and the remedy, which the caller knows.
    """
    read: Typed = _Reader(allow_nan).read(kind, value, name)
    return read


@dataclass(frozen=True)
class _Reader:
    allow_nan: bool

    def read(self, hint: Any, value: object, name: str) -> Any:  # noqa: ANN401 — type hints have no common type
        # most values are of this kind
        if hint in _RULES:
            return self._scalar(hint, value, name)
        if hint is object:
            return value
        if is_dataclass(hint):
            return self._object(hint, value, name)
        parts = get_args(hint)
        if get_origin(hint) in (Union, types.UnionType):
            [inner] = (part for part in parts if part is not types.NoneType)
            return None if value is None else self.read(inner, value, name)
        if get_origin(hint) is dict:
            return self._mapping(parts, value, name)
        if get_origin(hint) is tuple:
            items = _require(list, "a list", value, name)
            return tuple(self.read(parts[0], item, _at(name, place)) for place, item in enumerate(items))
        assert get_origin(hint) is Literal, f"{name}: no rule for {hint}"
        if value not in parts:
            raise _refusal(value, f"one of {', '.join(map(str, parts))}", name)
        return value

    def _object(self, kind: Any, value: object, name: str) -> Any:  # noqa: ANN401
        content, found = _require(dict, "an object", value, name), {}
        for key, (hint, is_required) in _keys_of(kind).items():
            if key in content:
                found[key] = self.read(hint, content[key], _at(name, key))
            elif is_required:
                raise InputError(f"has no {_at(name, key)}")
        return kind(**found)

    def _mapping(self, parts: tuple[Any, ...], value: object, name: str) -> dict[Any, Any]:
        key_kind, value_kind = parts
        found = {}
        for key, each in _require(dict, "an object", value, name).items():
            if key_kind is int and not key.isdecimal():
                raise _refusal(key, "a whole number", f"a key of {name}")
            found[key_kind(key)] = self.read(value_kind, each, _at(name, key))
        return found

    def _scalar(self, kind: type, value: object, name: str) -> object:
        rule, is_right = _RULES[kind]
        if not is_right(value):
            raise _refusal(value, rule, name)
        if isinstance(value, float) and not (self.allow_nan or math.isfinite(value)):
            raise _refusal(value, "a finite number", name)
        return datetime.fromisoformat(str(value)) if kind is datetime else value


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return isinstance(value, str)


_RULES: dict[type, tuple[str, Callable[[object], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    # True is no number here
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    str: ("text", lambda value: isinstance(value, str)),
    datetime: ("a time by ISO 8601", _is_time),
}


@cache
def _keys_of(kind: Any) -> dict[str, tuple[Any, bool]]:  # noqa: ANN401
    """The type of each field, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }


def _require(kind: type, rule: str, value: object, name: str) -> Any:  # noqa: ANN401
    if not isinstance(value, kind):
        raise _refusal(value, rule, name)
    return value


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # of a pickle, which may hold more than JSON does
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _refusal(value: object, rule: str, name: str) -> InputError:
    return InputError(f"{name or 'the content'} is {shown(value)}, but must be {rule}")


def _at(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)
