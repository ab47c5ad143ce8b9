"""A small log and settings that train in seconds, for tests of training."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from data_prep.synth import make_log
from tpnet_dist.config.schema import (
    Config,
    DataConfig,
    EvaluationConfig,
    MemoryConfig,
    TrainingConfig,
)
from tpnet_dist.models.tpnet.config import TPNetConfig

EVENTS = 1200

SMALL_MODEL = TPNetConfig(neighbors=4, time_width=8, channels=16, mixer_layers=1)


def small_log(folder: Path, events: int = EVENTS) -> Path:
    make_log(folder, kind="social", events=events, average_degree=20)
    return folder


def small_config(folder: Path, **sections: dict[str, Any]) -> Config:
    """Batches of 50, two epochs; `training={"epochs": 3}` and the like change it."""
    config = Config(
        data=DataConfig(folder=str(folder)),
        memory=MemoryConfig(width=16),
        model=SMALL_MODEL,
        training=TrainingConfig(batch_size=50, epochs=2, learning_rate=1e-4),
        evaluation=EvaluationConfig(batch_size=50),
    )
    changed = {name: replace(getattr(config, name), **values) for name, values in sections.items()}
    return replace(config, **changed)


def flags_of(config: Config) -> list[str]:
    """The small settings as arguments of the command line."""
    return [
        *flags_of_any_model(config),
        *("--model.neighbors", str(config.model.neighbors)),
        *("--model.mixer-layers", str(config.model.mixer_layers)),
    ]


def flags_of_any_model(config: Config) -> list[str]:
    """Without those that only some models have."""
    return [
        *("--memory.width", str(config.memory.width)),
        *("--model.time-width", str(config.model.time_width)),
        *("--model.channels", str(config.model.channels)),
        *("--training.batch-size", str(config.training.batch_size)),
        *("--training.epochs", str(config.training.epochs)),
        *("--training.learning-rate", str(config.training.learning_rate)),
        *("--evaluation.batch-size", str(config.evaluation.batch_size)),
    ]
