"""TPNet and what may be changed about it: as flags of training, and the name of a change found in a run."""

from tpnet_dist.config.keys import Layer, changes_no_result, values_of
from tpnet_dist.config.schema import Config
from tpnet_dist.config.train_args import command_line_of

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

_WIDTH = "memory.width"
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


def is_ablation(variant: str) -> bool:
    return variant in VARIANTS and variant != WHOLE


def flags_of(variant: str) -> list[str]:
    width = width_of(variant)
    return VARIANTS[variant] if width is None else [f"--{_WIDTH}", str(width)]


def variant_of(config: Config, base: Config) -> str:
    """Return what was changed, by name; settings that have none are told one by one."""
    before, now = values_of(base), values_of(config)
    changed: Layer = {key: value for key, value in now.items() if value != before[key] and _matters(key)}
    for name, flags in VARIANTS.items():
        if changed == command_line_of(config.model.name).read(flags):
            return name
    if isinstance(width := changed.get(_WIDTH), int) and len(changed) == 1:
        return width_variant(width)
    return ", ".join(f"{key} {value}" for key, value in changed.items())


def _matters(key: str) -> bool:
    return key not in _NO_MATTER and not changes_no_result(key)
