"""`tpnet tune`: from the arguments of its command line to cells, each the arguments of one training."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from tpnet_dist.config.keys import config_keys, did_you_mean
from tpnet_dist.config.toml_files import model_of
from tpnet_dist.config.train_args import TrainSettings, parse_train
from tpnet_dist.errors import InputError, spoken

PROGRAM = "python -m tpnet_dist.tune"
GRIDS = {"paper-decay": "memory.decay=1e-4,1e-5,1e-6,1e-7"}
"""Grids by name: the paper's search for λ."""
MOST_CELLS = 1000
_AXIS = re.compile(r"\w[\w.-]*=.*")
_NEXT_AXIS = re.compile(r",(?=\w+\.[\w-]+=)")
_OWN = ("grid", "epochs", "run_dir")


@dataclass(kw_only=True)
class TuneCommand:
    """Train once for each combination of some settings, one after another; then show one table and write one
    report, best validation first.

    Every other flag of `tpnet train` may be given too, and holds for all trainings. The same command goes on
    with the training that was interrupted, and leaves finished ones as they are.

    Example: tpnet tune data/uci --preset uci --grid memory.decay=1e-7,1e-6 model.neighbors=10,20 --epochs 3

    Example: tpnet tune data/mine --grid paper-decay --epochs 3 --ranks 2
    """

    data_dir: Annotated[Positional[str], arg(metavar="[DATA_DIR]")] = ""
    """The data folder."""
    grid: Annotated[tuple[str, ...], arg(metavar="KEY=VALUE,VALUE …")] = ()
    """Settings with the values to try, separated by blanks or semicolons; or paper-decay, the four λ of the
    paper's search."""
    epochs: Annotated[int | None, arg(metavar="COUNT")] = None
    """Epochs of each training, as --training.epochs."""
    run_dir: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder of all trainings; by default runs/tune-NAME, with the name of the data folder."""


@dataclass(frozen=True)
class Cell:
    """Is one combination of values."""

    values: Mapping[str, str]
    """The values of settings, by key."""
    args: tuple[str, ...]
    """The arguments of its training, without the run's folder."""

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        said = (f"{key}={value}" for key, value in self.values.items())
        return re.sub(r"[^\w.=,+-]", "-", ",".join(said))


@dataclass(frozen=True)
class Tuning:
    """Holds all that the command line says."""

    folder: Path
    cells: tuple[Cell, ...]
    settings: TrainSettings
    """The settings of the first cell."""


def parse_tune(args: list[str]) -> Tuning:
    """InputError with one sentence where the arguments cannot be used."""
    if "-h" in args or "--help" in args:
        tyro.cli(TuneCommand, prog=spoken(PROGRAM), args=["--help"], config=(FlagCreatePairsOff,))
    own, rest = _sorted_out(args)
    if not own["grid"]:
        raise InputError("no grid is given; say --grid memory.decay=1e-7,1e-6, or --grid paper-decay")
    if own["epochs"]:
        rest += ["--training.epochs", own["epochs"][-1]]
    axes = _axes(own["grid"], rest)
    cells = tuple(
        _cell(dict(zip(axes, values, strict=True)), rest) for values in _combinations(list(axes.values()))
    )
    # all of them, before the first is trained
    settings = [parse_train(list(cell.args)) for cell in cells]
    _require_trainings(settings[0])
    name = Path(settings[0].config.data.folder or "built-in").resolve().name
    folder = Path(own["run_dir"][-1]) if own["run_dir"] else Path("runs") / f"tune-{name}"
    return Tuning(folder, cells, settings[0])


def _sorted_out(args: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return what our own flags say, and the arguments that are training's."""
    own: dict[str, list[str]] = {name: [] for name in _OWN}
    rest, left = [], list(args)
    while left:
        arg_ = left.pop(0)
        flag, equals, value = arg_.partition("=")
        name = flag.lstrip("-").replace("-", "_")
        if not flag.startswith("--") or name not in own:
            rest.append(arg_)
            continue
        said = [value] if equals else []
        if name == "grid":
            # axes look like settings; whatever else comes first may be a grid's name
            while left and (_AXIS.fullmatch(left[0]) or (not said and not left[0].startswith("-"))):
                said.append(left.pop(0))
        elif not equals and left:
            said.append(left.pop(0))
        if not said:
            raise InputError(f"{flag} has no value; write one after it")
        own[name] += said
    return own, rest


def _axes(grid: list[str], rest: list[str]) -> dict[str, list[str]]:
    """Return the values of each key."""
    axes: dict[str, list[str]] = {}
    known = config_keys(model_of(rest))
    parts = (_NEXT_AXIS.sub(";", GRIDS.get(part, part)) for part in grid)
    for axis in (each for part in parts for each in part.split(";") if each.strip()):
        key, equals, said = axis.strip().partition("=")
        key = key.lstrip("-").replace("-", "_")
        if not equals:
            raise InputError(
                f"--grid {axis.strip()}: is neither KEY=VALUE,VALUE nor one of {', '.join(GRIDS)}; write one"
            )
        if key not in known and not key.startswith("model."):
            raise InputError(f"--grid {axis.strip()}: unknown setting {key}; {did_you_mean(key, known)}")
        values = [value.strip() for value in said.split(",") if value.strip()]
        if not values:
            raise InputError(f"--grid {axis.strip()}: has no values; write some after {key}=")
        if key in axes:
            raise InputError(f"--grid {axis.strip()}: {key} is there twice; give all values at once")
        if len(set(values)) < len(values):
            raise InputError(f"--grid {axis.strip()}: has a value twice; give each once")
        axes[key] = values
    return axes


def _combinations(values: list[list[str]]) -> list[tuple[str, ...]]:
    count = 1
    for some in values:
        count *= len(some)
    if count > MOST_CELLS:
        raise InputError(f"the grid has {count:,} trainings, but at most {MOST_CELLS:,} are taken; give less")
    return list(product(*values))


def _cell(values: Mapping[str, str], rest: list[str]) -> Cell:
    flags = [word for key, value in values.items() for word in (f"--{key}", value)]
    return Cell(values, (*rest, *flags))


def _require_trainings(settings: TrainSettings) -> None:
    said = {
        "--check": settings.check,
        "--fresh": settings.fresh,
        "--profile": bool(settings.profile),
        "--continue-from": bool(settings.config.training.continue_from),
    }
    for flag, is_said in said.items():
        if is_said:
            raise InputError(f"{flag} is for one training, and this makes several; leave it away")
