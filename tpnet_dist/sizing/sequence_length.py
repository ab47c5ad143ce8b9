"""How long the sequences of a model may be, where those that were asked for do not fit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tpnet_dist.config.schema import Config
from tpnet_dist.models.registry import spec_of


def sequence_length_of(config: Config) -> tuple[str, int] | None:
    """The setting and its value; None for models without it."""
    setting = spec_of(config).sequence
    return None if setting is None else (f"model.{setting.length}", getattr(config.model, setting.length))


def longest_that_fits(config: Config, fits: Callable[[Config], bool]) -> int | None:
    """The longest sequences, shorter than those asked for, with which the rest fits; None if none are."""
    setting = spec_of(config).sequence
    if setting is None:
        return None
    multiple: int = getattr(config.model, setting.multiple_of)

    def is_possible(patches: int) -> bool:
        changes: dict[str, Any] = {setting.length: patches * multiple}
        return fits(replace(config, model=replace(config.model, **changes)))

    # the shortest has an interaction beside the end itself
    shortest = -(-2 // multiple)
    low, high = shortest - 1, getattr(config.model, setting.length) // multiple
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_possible(middle) else (low, middle)
    return low * multiple if low >= shortest else None
