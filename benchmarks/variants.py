"""Models, and what may be changed about TPNet: as flags of training, and the name of a change found in a run.

A model as its preset has it goes by its title.
"""

from functools import cache

from tpnet_dist.config.keys import Layer, changes_no_result, values_of
from tpnet_dist.config.model_configs import DEFAULT_MODEL, model_config_type
from tpnet_dist.config.schema import Config
from tpnet_dist.config.train_args import command_line_of
from tpnet_dist.models.registry import MODELS

WHOLE = "TPNet"
ROUNDED = "bfloat16 exchange"
"""Rows are rounded on their way from rank to rank: on one rank it is TPNet itself."""
VARIANTS: dict[str, list[str]] = {
    WHOLE: [],
    "without node representations": ["--memory.enabled", "False"],
    "without time": ["--memory.decay", "0"],
    "without scaling": ["--model.scale", "False"],
    "walk counts": ["--memory.walk", "count"],
    "transition probabilities": ["--memory.walk", "transition"],
    "1 hop": ["--memory.hops", "1"],
    "2 hops": ["--memory.hops", "2"],
    ROUNDED: ["--memory.exchange-dtype", "bfloat16"],
}
PAPER_VARIANTS = tuple(VARIANTS)[:4]
"""The variants of the paper's ablation study."""
MAY_OVERFLOW = "without scaling"
"""Has no value on some datasets of the paper either."""
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Widths of the paper's study of dimensions."""

DECAYS = (1e-7, 1e-6, 1e-5, 1e-4)
"""λ of the paper's search."""

_WIDTH, _DECAY = "memory.width", "memory.decay"
_NO_MATTER = {
    "data.folder",
    "training.epochs",
    "training.patience",
    "training.max_steps",
    "training.seed",
    "training.seeds",
    "evaluation.negatives",
    "evaluation.mrr_negatives",
    "evaluation.baseline",
    "evaluation.test_every_epoch",
}
"""Keys that make no other model, or are told beside it, besides those that change no result."""


def width_variant(width: int) -> str:
    return f"width {width}"


def width_of(variant: str) -> int | None:
    """Return the width; None for what is not a variant of the width."""
    number = variant.removeprefix("width ")
    return int(number) if number != variant and number.isdigit() else None


def decay_variant(rate: float) -> str:
    return f"decay {rate:g}"


def decay_of(variant: str) -> float | None:
    """Return its λ; None for what is not a variant of λ."""
    number = variant.removeprefix("decay ")
    return float(number) if number != variant else None


@cache
def titles() -> dict[str, str]:
    """Return titles of models, by name."""
    return {name: model_config_type(name).title for name in MODELS}


def is_whole(variant: str) -> bool:
    """Tell whether it is a model with nothing changed."""
    return variant in titles().values()


def is_main(variant: str) -> bool:
    """Tell whether it belongs to the main tables: models, changed or not, but for those of a study."""
    return not is_ablation(variant) and width_of(variant) is None and decay_of(variant) is None


def is_ablation(variant: str) -> bool:
    return variant in VARIANTS and variant != WHOLE


def flags_of(variant: str) -> list[str]:
    for name, title in titles().items():
        if variant == title and name != DEFAULT_MODEL:
            return ["--model.name", name]
    for key, value in ((_WIDTH, width_of(variant)), (_DECAY, decay_of(variant))):
        if value is not None:
            return [f"--{key}", f"{value:g}"]
    return VARIANTS[variant]


def variant_of(config: Config, base: Config) -> str:
    """Return what was changed, by name; settings that have none are told one by one. `base` is of the same
    model."""
    before, now = values_of(base), values_of(config)
    changed: Layer = {key: value for key, value in now.items() if value != before[key] and _matters(key)}
    if config.model.name != DEFAULT_MODEL:
        return ", ".join([config.model.title, *_told(changed)])
    for name, flags in VARIANTS.items():
        if changed == command_line_of(config.model.name).read(flags):
            return name
    if isinstance(width := changed.get(_WIDTH), int) and len(changed) == 1:
        return width_variant(width)
    if isinstance(rate := changed.get(_DECAY), float) and len(changed) == 1:
        return decay_variant(rate)
    return ", ".join(_told(changed))


def _told(changed: Layer) -> list[str]:
    return [f"{key} {value}" for key, value in changed.items()]


def _matters(key: str) -> bool:
    return key not in _NO_MATTER and not changes_no_result(key)
