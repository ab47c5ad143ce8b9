"""Distributed training of temporal link predictors, TPNet first of all, on sharded event logs."""

from typing import TYPE_CHECKING

from tpnet_dist.models import registry as _registry  # noqa: F401 — makes the settings of each model known

if TYPE_CHECKING:
    from tpnet_dist.prediction.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["Predictor", "__version__"]


def __getattr__(name: str) -> object:
    """On first use: torch takes seconds to import."""
    if name == "Predictor":
        from tpnet_dist.prediction.predictor import Predictor

        return Predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
