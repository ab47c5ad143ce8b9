"""Whole numbers on a command line, which people like to write 1e6."""

from typing import Annotated

from tyro.constructors import PrimitiveConstructorSpec


def whole_number(text: str) -> int:
    """Return `text` as an integer; ValueError if it is none."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise ValueError(f"{text} is not a whole number") from None
        return int(number)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="COUNT",
        instance_from_str=lambda args: whole_number(args[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""A whole number that may be written 1e6."""
