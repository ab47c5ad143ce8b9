"""`python -m tpnet_dist.train`: from the arguments of its command line to the settings of a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import tyro
from tyro.conf import FlagConversionOff, FlagCreatePairsOff, Positional, arg

from tpnet_dist.config.args import CommandLine
from tpnet_dist.config.keys import Layer, config_from, config_keys, keys_of, require_no_seed_is_dropped
from tpnet_dist.config.model_configs import model_config_type
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, model_of, read_layer, read_layers, read_preset
from tpnet_dist.errors import InputError, spoken

PROGRAM = "python -m tpnet_dist.train"
BUILTIN_PRESET = "social"
"""The preset of the built-in log."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """All that the command line or the call, the file and the preset say."""

    config: Config
    run_dir: Path | None
    fresh: bool
    learn_old_test: bool
    check: bool
    profile: int
    ranks: str
    restarts: int
    log: tuple[str, ...]
    debug: bool

    def besides_config(self) -> dict[str, object]:
        """Return the options beside the configuration that ranks must agree on."""
        run_dir = str(self.run_dir) if self.run_dir else None
        return {
            "--run-dir": run_dir,
            "--fresh": self.fresh,
            "--learn-old-test": self.learn_old_test,
            "--check": self.check,
            "--profile": self.profile,
        }


@dataclass(kw_only=True)
class OwnFlags:
    """The flags that are no keys of a configuration."""

    preset: Annotated[str | None, arg(metavar="NAME")] = None
    """Settings of one of the paper's datasets: can_parl, contact, enron, flights, lastfm, mooc, reddit,
    social (the built-in log), social_evo, uci, un_trade, un_vote, us_legis, wikipedia."""
    config: Annotated[Path | None, arg(metavar="FILE.toml")] = None
    """A TOML file of settings, such as the config.toml of an earlier run."""
    run_dir: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder in which the run is kept; if it holds an interrupted run, that one goes on."""
    continue_from: Annotated[Path | None, arg(metavar="RUN")] = None
    """Start from the weights, the optimizer and the settings of a run whose data folder has grown since. What
    its weights come to on the new split is measured first; events of its test part stay out of training."""
    learn_old_test: bool = False
    """Train on the test part of the run that is continued too, as far as the new split has it there."""
    fresh: bool = False
    """Do not go on with a run: refuse if the run folder holds one."""
    check: bool = False
    """Check data and settings, say what the run will take, and stop."""
    profile: Annotated[int, arg(metavar="STEPS")] = 0
    """Trace so many training steps into DIR/profile, and show where their time went."""
    log: Annotated[tuple[Literal["csv", "wandb", "mlflow"], ...], arg(metavar="csv|wandb|mlflow …")] = ()
    """Where metrics go beside metrics.jsonl and TensorBoard: metrics.csv in DIR, Weights & Biases, MLflow."""
    ranks: Annotated[str, arg(metavar="auto|COUNT")] = "auto"
    """How many ranks to start on this machine; auto: one for each GPU, and one where there is none. Under
    torchrun ranks are there already."""
    restarts: Annotated[int, arg(metavar="COUNT")] = 0
    """How often to start ranks again when one fails; mistakes in what is given are not tried again."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(kw_only=True)
class TrainCommand(OwnFlags):
    """Train a model on a data folder; without one, on a small built-in log.

    The model is TPNet unless --model.name says otherwise; with it, --help lists that model's settings.

    Defaults are changed by --preset, then by --config, then by flags. Every dotted flag is also a TOML key:
    --training.batch-size 400 is batch_size = 400 under [training]. It may be written --training.batch_size,
    --training.batch_size=400 or training.batch_size=400. Whole numbers may be written 1e6, lists 0 1 2 or
    [0,1,2]; a list ends at the next flag, so the data folder comes first.

    Example: tpnet train data/uci --preset uci --ranks 4 --training.seeds 0 1 2
    """

    data_dir: Annotated[Positional[str], arg(metavar="[DATA_DIR]")] = ""
    """The data folder, as --data.folder."""
    keys: Annotated[FlagConversionOff[Config], arg(name="")] = field(default_factory=Config)


OWN_KEYS = keys_of(OwnFlags)


def command_line_of(model: str) -> CommandLine:
    return CommandLine(
        keys={**OWN_KEYS, **config_keys(model)},
        switches=frozenset(name for name, key in OWN_KEYS.items() if key.kind is bool),
        positional_key="data.folder",
        positional_name="data folder",
    )


def parse_train(args: list[str]) -> TrainSettings:
    """Return the settings `args` ask for; InputError with one sentence where they cannot be used."""
    model = model_of(args)
    if "-h" in args or "--help" in args:
        show_help(model)
    said = command_line_of(model).read(args)
    own = OwnFlags(**{name: said.pop(name) for name in OWN_KEYS if name in said})  # type: ignore[arg-type]
    return settings_of(own, said, model)


def settings_of(own: OwnFlags, said: Layer, model: str) -> TrainSettings:
    """Make the settings of a run. `said`: keys of the configuration, which change those of file and
    preset."""
    require_no_seed_is_dropped(said)
    layers = read_layers(own.preset, own.config, model)
    if own.continue_from is not None:
        layers.insert(0, _settings_to_continue(own.continue_from, model))
    elif own.learn_old_test:
        raise InputError("--learn-old-test is about the run of --continue-from; give it too")
    if not any(layer.get("data.folder") for layer in [*layers, said]):
        _require_builtin(own.preset)
        layers.insert(0, read_preset(BUILTIN_PRESET, model))
    if own.profile < 0:
        raise InputError(f"--profile is {own.profile}, but must be at least 0 steps; raise it")
    if own.restarts < 0:
        raise InputError(f"--restarts is {own.restarts}, but must be at least 0; raise it")
    return TrainSettings(
        config=config_from([*layers, said]),
        run_dir=own.run_dir,
        fresh=own.fresh,
        learn_old_test=own.learn_old_test,
        check=own.check,
        profile=own.profile,
        ranks=own.ranks,
        restarts=own.restarts,
        log=tuple(dict.fromkeys(own.log)),
        debug=own.debug,
    )


def _settings_to_continue(run: Path, model: str) -> Layer:
    """Return the settings of the other run, but for what is about its own beginning and end."""
    if not (run / CONFIG_NAME).is_file():
        raise InputError(f"{run}: holds no {CONFIG_NAME}, so it is no run; give the folder of a run")
    layer = read_layer(run / CONFIG_NAME, model)
    for key in ("model.weights", "data.held_out", "training.max_steps"):
        layer.pop(key, None)
    layer["training.continue_from"] = str(run)
    return layer


def _require_builtin(preset: str | None) -> None:
    """Refuse presets of datasets where no data folder is given. The built-in log is what one gets without a
    data folder; its figures are not to pass for another's."""
    if preset not in (None, BUILTIN_PRESET):
        raise InputError(
            f"--preset {preset} has settings for a dataset, not its events, and no data folder is given; "
            f"name it: {spoken(PROGRAM)} DATA_DIR --preset {preset}"
        )


def show_help(model: str) -> NoReturn:
    default = TrainCommand(keys=Config(model=model_config_type(model)()))
    tyro.cli(
        TrainCommand, prog=spoken(PROGRAM), args=["--help"], default=default, config=(FlagCreatePairsOff,)
    )
    raise AssertionError("tyro shows the help and exits")
