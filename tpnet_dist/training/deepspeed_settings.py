"""A DeepSpeed JSON with all that this run decides filled in; what says otherwise is refused.

DeepSpeed is not imported here: `--check` is not to wait for it.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.errors import InputError
from tpnet_dist.files.stored_json import parse_json
from tpnet_dist.files.typed_json import shown
from tpnet_dist.files.user_paths import read_settings
from tpnet_dist.training.engine import adam_settings

AUTO = "auto"
ZERO_STAGES = (1, 2)


def deepspeed_settings(config: TrainingConfig, num_ranks: int, device_type: str) -> dict[str, Any]:
    """Return the settings for `deepspeed.initialize`."""
    if config.precision == "float64":
        raise InputError(
            "training.precision is float64, but DeepSpeed learns in float32 at the most; "
            "use --training.engine ddp"
        )
    path = _path(config)
    settings = _read(path)
    try:
        for key, value in _decided(config, num_ranks, device_type).items():
            _fill(settings, key, value)
        _fill_in_bfloat16(settings, config)
        _check_the_rest(settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return settings


def _path(config: TrainingConfig) -> Path | Traversable:
    return Path(config.deepspeed) if config.deepspeed else files("launch") / "deepspeed.json"


def _read(path: Path | Traversable) -> dict[str, Any]:
    content = read_settings(path, "DeepSpeed JSON") if isinstance(path, Path) else path.read_bytes()
    try:
        settings = parse_json(content)
    except InputError as error:
        raise InputError(f"{path}: {error}; correct it there") from error
    if not isinstance(settings, dict):
        raise InputError(f"{path}: holds no JSON object; give a DeepSpeed JSON")
    return settings


def _decided(config: TrainingConfig, num_ranks: int, device_type: str) -> dict[str, Any]:
    """Return the settings that the run decides, by dotted name. Counts of events are for DeepSpeed's own
    reports: slices are as large as they are."""
    slices = BatchSlices.of(config.microbatches, 0, num_ranks, device_type)
    largest_slice = slices.largest_slice(config.batch_size)
    of_adam = {f"optimizer.params.{name}": value for name, value in adam_settings(device_type).items()}
    return {
        "train_micro_batch_size_per_gpu": largest_slice,
        "gradient_accumulation_steps": config.batches_per_step,
        "train_batch_size": largest_slice * config.batches_per_step * num_ranks,
        "optimizer.type": "Adam",
        "optimizer.params.lr": config.learning_rate,
        **of_adam,
        # torch's own, whose state other engines can read; and Adam, which DeepSpeed takes for AdamW
        "optimizer.params.torch_adam": True,
        "optimizer.params.adam_w_mode": False,
        "gradient_clipping": 0.0,
        # a rank's loss is its share of the loss
        "gradient_allreduce_op": "sum",
        "fp16.enabled": False,
        # the model does this itself
        "torch_autocast.enabled": False,
    }


def _fill(settings: dict[str, Any], key: str, value: Any) -> None:  # noqa: ANN401 — as in JSON
    section, name = _section(settings, key)
    found = section.get(name, AUTO)
    wanted = list(value) if isinstance(value, tuple) else value
    if found != AUTO and (found != wanted or isinstance(found, bool) != isinstance(wanted, bool)):
        raise InputError(f'{key} is {shown(found)}, but this run has {shown(value)}; write "auto" there')
    section[name] = value


def _fill_in_bfloat16(settings: dict[str, Any], config: TrainingConfig) -> None:
    """Fill in bfloat16 weights only if asked for: false leaves them float32, and rounding to the model."""
    section, name = _section(settings, "bf16.enabled")
    computes_so = config.precision == "bfloat16"
    wanted = section.get(name, False)
    section[name] = computes_so if wanted == AUTO else wanted
    if not isinstance(section[name], bool):
        raise InputError(f'bf16.enabled is {shown(wanted)}, but must be true, false or "auto"; choose one')
    if section[name] and not computes_so:
        raise InputError(
            "bf16.enabled is true, but training.precision is float32; "
            'write "auto" there, or train with --training.precision bfloat16'
        )


def _check_the_rest(settings: dict[str, Any]) -> None:
    section, name = _section(settings, "zero_optimization.stage")
    stage = section.setdefault(name, 1)
    if type(stage) is not int or stage not in ZERO_STAGES:
        raise InputError(
            f"zero_optimization.stage is {shown(stage)}, but must be 1 or 2: the weights are few, and every "
            "rank scores with all of them; write 1, or use --training.engine ddp"
        )
    unknown = settings["optimizer"]["params"].keys() - {
        *adam_settings("cpu"),
        "lr",
        "torch_adam",
        "adam_w_mode",
    }
    if unknown:
        raise InputError(f"optimizer.params.{min(unknown)} is set, but Adam has no such setting; take it out")
    for key, what in (
        ("scheduler", "the learning rate stays as it is"),
        ("zero_optimization.offload_optimizer", "the optimizer's state is small and stays on its device"),
        ("zero_optimization.offload_param", "the weights are few and stay on their device"),
        ("zero_optimization.cpu_offload", "the optimizer's state is small and stays on its device"),
        ("communication_data_type", "gradients travel as they are computed"),
        ("amp", "training.precision says what the model multiplies in"),
    ):
        section, name = _section(settings, key)
        if name in section:
            raise InputError(f"{key} is set, but {what}; take it out")


def _section(settings: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return the section that holds a dotted key, and the key's name in it."""
    *sections, name = key.split(".")
    for part in sections:
        settings = settings.setdefault(part, {})
        if not isinstance(settings, dict):
            raise InputError(
                f"{part} is {shown(settings)}, but must be an object; write {{}} there for the defaults"
            )
    return settings, name
