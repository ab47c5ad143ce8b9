"""The paper's ablation study: transductive test AP with random negatives."""

from benchmarks.variants import PAPER_VARIANTS
from tpnet_dist.config.paper_values import PaperValue

# without node representations, without time, without scaling; None: numerical overflow
_PERCENT: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "mooc": ((83.21, 0.23), (94.62, 0.34), (63.04, 0.95)),
    "lastfm": ((76.52, 0.41), (94.30, 0.03), None),
    "enron": ((83.23, 0.13), (92.85, 0.17), None),
    "uci": ((88.70, 2.53), (97.19, 0.10), (73.13, 2.57)),
    "us_legis": ((69.47, 1.33), (71.83, 0.52), (70.44, 1.97)),
    "un_trade": ((62.56, 0.32), (65.98, 0.45), (56.58, 1.08)),
    "un_vote": ((52.58, 0.66), (54.80, 0.28), (53.20, 1.39)),
}


def paper_ablation(dataset: str, variant: str) -> PaperValue | None:
    """Return the paper's figure; None where it has no such figure."""
    if dataset not in _PERCENT or variant not in PAPER_VARIANTS[1:]:
        return None
    value = _PERCENT[dataset][PAPER_VARIANTS.index(variant) - 1]
    return None if value is None else PaperValue(*(round(number / 100, 6) for number in value))
