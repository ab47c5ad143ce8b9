"""Training on a log that has grown since a run: which version the run is of, and how another goes on from it.

    the run      |  training part  | validation |  test  |
    the new one  |       training part      |...held out.|   validation   |   test   |

Events of the run's test part stay out of training, so that no figure of it is of events that were learned.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpnet_dist.config.schema import Config, default_width
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import Figures
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import events_of_test_part
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.stored_json import CHECKSUM_KEY, parse_json, require_intact, sealed
from tpnet_dist.files.typed_json import from_json
from tpnet_dist.training.checkpoint import BEST_NAME, newest_optimizer, newest_step_facts, read_best
from tpnet_dist.training.engine import OptimizerState
from tpnet_dist.training.run_folder import RunFolder, seed_folder

BEFORE_NAME = "before.json"
"""The file, in a seed's folder of checkpoints, of the figures of the other run's weights."""


def log_id_of(run: RunFolder) -> str | None:
    """Return the log that a run is of; None if it has saved nothing yet."""
    results = run.results()
    if results is not None and results.run is not None:
        return results.run.data.log_id
    for seed in run.config().training.all_seeds():
        facts = newest_step_facts(seed_folder(run.path, seed))
        if facts is not None:
            return str(facts.get("log_id"))
    return None


@dataclass(frozen=True)
class Prefix:
    """The version of a log that a run began with, where events were appended since."""

    log_id: str
    said: str
    """The sentence that tells people what happened."""


def prefix_of(run_dir: Path, config: Config) -> Prefix | None:
    """Return the version that a run began with; None if the run is of the log as it is, or there is none
    yet."""
    if not (run_dir / CONFIG_NAME).is_file():
        return None
    log_id, manifest = log_id_of(RunFolder(run_dir)), EventLog(config.data.folder).manifest
    then = None if log_id in (None, manifest.log_id) else manifest.at(str(log_id))
    if then is None:
        return None
    return Prefix(
        then.log_id,
        f"{run_dir}: is a run on the first {then.events:,} events of {config.data.folder}, which has "
        f"{manifest.events:,} now; it goes on with those it began with, and --continue-from {run_dir} with "
        "another --run-dir learns from the others",
    )


def settled(config: Config, run_dir: Path | None, *, learn_old_test: bool) -> Config:
    """Return the settings of a run that goes on from another: what the other one was is said in them."""
    if not config.training.continue_from:
        return config
    if run_dir is not None and (run_dir / CONFIG_NAME).is_file():
        # it was settled when it began, and the other may be gone
        own = read_config(run_dir / CONFIG_NAME)
        held_out, width, decay = own.data.held_out, own.memory.width, own.memory.decay
        if config.data.held_out or learn_old_test:
            held_out = config.data.held_out
    else:
        source = OtherRun.of(Path(config.training.continue_from), config)
        held_out, width, decay = source.held_out(), source.width, source.config.memory.decay
        if learn_old_test or config.data.held_out:
            held_out = config.data.held_out
    return replace(
        config,
        data=replace(config.data, held_out=held_out),
        memory=replace(
            config.memory,
            width=config.memory.width or width,
            decay=decay if config.memory.decay == "auto" else config.memory.decay,
        ),
    )


@dataclass(frozen=True)
class OtherRun:
    """The run that another goes on from."""

    path: Path
    config: Config
    log: EventLog
    """The log as it was for that run."""

    @classmethod
    def of(cls, path: Path, config: Config) -> "OtherRun":
        """Open the other run. `config`: the settings of the run that goes on."""
        run = RunFolder.open(path)
        own = run.config()
        if missing := set(config.training.all_seeds()) - set(own.training.all_seeds()):
            raise InputError(
                f"{path}: has no seed {min(missing)}; choose seeds that it has with --training.seeds"
            )
        best = seed_folder(path, own.training.all_seeds()[0]) / BEST_NAME
        if not best.is_file():
            raise InputError(
                f"{path}: has no finished epoch whose weights could be taken; repeat its command first, or "
                "leave "
                "--continue-from away"
            )
        manifest = EventLog(config.data.folder).manifest
        log_id = log_id_of(run)
        if log_id is None or manifest.at(log_id) is None:
            raise InputError(
                f"{path}: is of event log {log_id}, which {config.data.folder} is not and never was; give "
                "the "
                f"folder that grew, or start from its weights alone with --model.weights {best}"
            )
        return cls(path, own, EventLog(config.data.folder, log_id=log_id))

    @property
    def width(self) -> int:
        """The width of its rows: more events would make them wider by default."""
        return self.config.memory.width or default_width(len(self.log), self.log.num_nodes)

    def held_out(self) -> tuple[int, int]:
        """Return the events of its test part."""
        part = events_of_test_part(self.log, self.config.data.test_share)
        return part.start, part.stop


@dataclass(frozen=True)
class Start:
    """The state that a seed starts from."""

    weights: dict[str, Any]
    epoch: int
    """The epoch that the weights are of, in their own run: rows start from its random features."""
    optimizer: OptimizerState
    path: Path


def start_of(config: Config, seed: int) -> Start:
    """Return the best weights of the same seed of the other run, and its optimizer's newest state."""
    run = Path(config.training.continue_from)
    folder = seed_folder(run, seed)
    path = folder / BEST_NAME
    if not path.is_file():
        raise InputError(
            f"{path}: {run} has no weights of seed {seed}; name seeds it has with --training.seeds"
        )
    state = read_best(path)
    return Start(state["model"], int(state["epoch"]), newest_optimizer(folder), path)


def read_before(folder: Path) -> dict[str, Figures] | None:
    """Return what was measured when the seed began; None if nothing was."""
    path = folder / BEFORE_NAME
    if not path.is_file():
        return None
    try:
        content = parse_json(path.read_bytes())
        require_intact(content)
        figures = {key: value for key, value in content.items() if key != CHECKSUM_KEY}
        return from_json(dict[str, Figures], figures, allow_nan=True)
    except (InputError, AttributeError) as error:
        raise InputError(f"{path}: {error}; remove it, and it is measured again") from error


def write_before(folder: Path, figures: dict[str, Figures]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / BEFORE_NAME) as file:
        file.write(json.dumps(sealed(figures), indent=1).encode())
