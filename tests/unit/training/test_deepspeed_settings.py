"""A DeepSpeed JSON gets from our settings what it leaves open, and may not say otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.sentences import refused
from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.training.deepspeed_settings import deepspeed_settings


def filled(folder: Path, settings: Any, *, ranks: int = 4, **training: Any) -> dict[str, Any]:
    path = folder / "mine.json"
    text = settings if isinstance(settings, str) else json.dumps(settings)
    path.write_text(text, errors="surrogateescape")
    return deepspeed_settings(
        TrainingConfig(engine="deepspeed", deepspeed=str(path), **training), ranks, "cpu"
    )


def test_the_packaged_file_gets_all_from_our_settings() -> None:
    config = TrainingConfig(engine="deepspeed", learning_rate=3e-4, batch_size=201, batches_per_step=3)
    settings = deepspeed_settings(config, 4, "cpu")
    assert '"auto"' not in json.dumps(settings)
    assert settings["train_micro_batch_size_per_gpu"] == 51
    assert settings["gradient_accumulation_steps"] == 3
    assert settings["train_batch_size"] == 612
    assert settings["optimizer"]["type"] == "Adam"
    assert settings["optimizer"]["params"] | {"lr": 3e-4, "eps": 1e-8} == settings["optimizer"]["params"]
    assert tuple(settings["optimizer"]["params"]["betas"]) == (0.9, 0.999)
    assert settings["zero_optimization"]["stage"] == 1


@pytest.mark.parametrize("empty", ["{}", "\ufeff{}"])
def test_an_empty_file_is_zero_stage_1_in_float32(tmp_path: Path, empty: str) -> None:
    settings = filled(tmp_path, empty)
    assert settings["zero_optimization"]["stage"] == 1
    assert settings["bf16"]["enabled"] is False
    assert settings["optimizer"]["params"]["lr"] == 1e-4


def test_what_agrees_and_what_we_do_not_decide_stays(tmp_path: Path) -> None:
    own = {
        "optimizer": {"params": {"lr": 0.0001, "betas": [0.9, 0.999]}},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 17},
        "wall_clock_breakdown": True,
    }
    settings = filled(tmp_path, own)
    assert settings["zero_optimization"] == own["zero_optimization"]
    assert settings["wall_clock_breakdown"] is True


@pytest.mark.parametrize(
    ("wanted", "precision", "enabled"),
    [
        ("auto", "float32", False),
        ("auto", "bfloat16", True),
        (True, "bfloat16", True),
        (False, "bfloat16", False),
    ],
)
def test_weights_are_bfloat16_only_where_the_model_computes_so(
    tmp_path: Path, wanted: Any, precision: str, enabled: bool
) -> None:
    settings = filled(tmp_path, {"bf16": {"enabled": wanted}}, precision=precision)
    assert settings["bf16"]["enabled"] is enabled


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": {"params": {"lr": 1e-3}}},
        {"optimizer": {"type": "AdamW"}},
        {"optimizer": {"params": {"weight_decay": 0.1}}},
        {"train_batch_size": 64},
        {"gradient_clipping": 1.0},
        {"fp16": {"enabled": True}},
        {"bf16": {"enabled": True}},
        {"zero_optimization": {"stage": 3}},
        {"scheduler": {"type": "WarmupLR"}},
        {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
        {"zero_optimization": {"offload_param": {"device": "cpu"}}},
        {"zero_optimization": {"cpu_offload": True}},
        {"zero_optimization": {"stage": True}},
        {"communication_data_type": "fp16"},
        {"amp": {"enabled": True}},
        {"optimizer": {"params": {"foo": 1}}},
        {"optimizer": 3},
        {"zero_optimization": {"stage": 1.0}},
        {"gradient_clipping": False},
        {"bf16": {"enabled": "yes"}},
        {"optimizer": [0] * 99},
        [],
        "{",
        "[" * 100_000,
        "\udcff",
    ],
)
def test_what_contradicts_our_settings_is_refused_in_one_sentence(tmp_path: Path, settings: Any) -> None:
    with refused() as error:
        filled(tmp_path, settings)
    assert str(error.value).startswith(f"{tmp_path / 'mine.json'}: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("none.json")
    for name in ("none.json", "link.json"):
        with refused():
            deepspeed_settings(TrainingConfig(deepspeed=str(tmp_path / name)), 1, "cpu")


def test_float64_is_not_deepspeeds() -> None:
    with refused():
        deepspeed_settings(TrainingConfig(engine="deepspeed", precision="float64"), 2, "cpu")
