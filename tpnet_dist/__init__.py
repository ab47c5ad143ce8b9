"""Distributed training of temporal link predictors, TPNet first of all, on sharded event logs."""

from importlib import import_module
from typing import TYPE_CHECKING

from tpnet_dist.errors import say_failed_imports as _say_failed_imports

_say_failed_imports()  # before what takes long to import

from tpnet_dist.models import registry as _registry  # noqa: E402, F401 — makes the settings of each model known

if TYPE_CHECKING:
    from tpnet_dist.api import Run, RunStopped, evaluate, fit, open_run
    from tpnet_dist.prediction.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["Predictor", "Run", "RunStopped", "__version__", "evaluate", "fit", "open_run"]

_OFFERED = {"Predictor": "tpnet_dist.prediction.predictor"} | dict.fromkeys(
    ("Run", "RunStopped", "evaluate", "fit", "open_run"), "tpnet_dist.api"
)


def __getattr__(name: str) -> object:
    """Import what the package offers when it is first used: torch takes seconds to import."""
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
