"""`python -m tpnet_dist.predict RUN`: score links, or find the best ones, with what was trained."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from tpnet_dist.config.args import require_place
from tpnet_dist.config.commands import CommandParser
from tpnet_dist.config.keys import config_from
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import read_layers
from tpnet_dist.distributed.rank_command import run_on_ranks
from tpnet_dist.errors import InputError
from tpnet_dist.files.user_paths import resolved

if TYPE_CHECKING:
    from tpnet_dist.distributed.world import World
    from tpnet_dist.prediction.link_columns import GivenColumns
    from tpnet_dist.prediction.predictor import Predictor

PROGRAM = "python -m tpnet_dist.predict"
STRATEGIES = ("all", "recent", "popular", "two-hop")
"""Ways to choose candidates; a file of such a name is ./all."""
LONGEST_TIME = 60
"""Characters; what is longer is no number that 64 bits hold."""


@dataclass(kw_only=True)
class PredictCommand:
    """Score the links of a file, or find the most likely destinations of some sources.

    By default everything in the run's log has happened. Files are CSV, plain or compressed, Parquet, Feather
    or JSON lines, of any size, with the columns of the files that the log was converted from; results go to
    a .csv or .parquet, which appears complete or not at all.

    Example: tpnet predict runs/mine --pairs pairs.csv --out scores.parquet

    Example: tpnet predict runs/mine --observe today.csv --top-k 20 --sources
    users.csv --out best.csv
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of a run, a checkpoint, a predictor that was saved, or a checkpoint of the released code."""
    pairs: Annotated[Path | None, arg(metavar="FILE")] = None
    """Links to score: source, destination and, unless all are asked about at one time, time."""
    top_k: Annotated[int | None, arg(metavar="K")] = None
    """Find the K most likely destinations of each source instead."""
    sources: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --top-k: whose, and if need be when."""
    candidates: Annotated[str, arg(metavar="all|recent|popular|two-hop|FILE")] = "all"
    """With --top-k: which destinations to choose from: all; for each source the latest, those with the most
    events, or those that its partners lead to; or a column of a file."""
    candidate_count: Annotated[int | None, arg(metavar="COUNT")] = None
    """With --candidates recent, popular or two-hop: how many; by default 1000."""
    exclude_seen: bool = False
    """With --top-k: without destinations that the source has had an event with."""
    exclude_self: bool = False
    """With --top-k: without the source itself."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where results go: .csv or .parquet; what is there is replaced. By default they are shown as a table."""
    observe: Annotated[Path | None, arg(metavar="FILE")] = None
    """First record these events, which happened after the log's; further columns are their features."""
    save: Annotated[Path | None, arg(metavar="FILE")] = None
    """Keep the model with what was observed in a file that can be given as RUN later."""
    at: Annotated[str | None, arg(metavar="TIME")] = None
    """When, for files without a time column: a number as the log counts time, or a date such as 2016-02-01 or
    2016-02-01T12:30, in UTC; by default at the time of the last event."""
    probability: bool = False
    """Probabilities beside the scores, calibrated on events of validation if the run is finished."""
    skip_unknown: bool = False
    """Leave out links, sources and candidates that nobody knows, instead of refusing them."""
    src: Annotated[str | None, arg(metavar="NAME")] = None
    """The column of sources; by default as in the files that the log was converted from, or src."""
    dst: Annotated[str | None, arg(metavar="NAME")] = None
    """The column of destinations; by default likewise, or dst."""
    time: Annotated[str | None, arg(metavar="NAME")] = None
    """The column of times; by default likewise, or time."""
    seed: Annotated[int | None, arg(metavar="SEED")] = None
    """Which one of a run with several; by default the first."""
    capacity: Annotated[int | None, arg(metavar="COUNT")] = None
    """How many nodes that are not in the log --observe may bring; by default 1000."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """The data folder, if it has moved, or for a checkpoint of the released code."""
    preset: Annotated[str | None, arg(metavar="NAME")] = None
    """For a checkpoint of the released code: settings of the paper's dataset."""
    config: Annotated[Path | None, arg(metavar="FILE.toml")] = None
    """For a checkpoint of the released code: settings, such as memory.decay."""
    ranks: Annotated[str, arg(metavar="auto|COUNT")] = "auto"
    """How many ranks to start on this machine; auto: one for each GPU, and one where there is none."""
    debug: bool = False
    """Show the traceback of an error."""
    restarts: ClassVar[int] = 0

    def given_files(self) -> list[Path]:
        """What is read beside the run."""
        files = (self.pairs, self.sources, self.candidates_file(), self.observe)
        return [file for file in files if file is not None]

    def candidates_file(self) -> Path | None:
        """The file of candidates, if it is none of the ways to choose them."""
        return None if self.candidates in STRATEGIES else Path(self.candidates)

    def moment(self) -> int | float | datetime | None:
        """A whole number stays one: as a fraction, nanoseconds since 1970 would be rounded."""
        if self.at is None:
            return None
        if len(self.at) > LONGEST_TIME:
            raise InputError(
                f"--at is {self.at[:20]}… of {len(self.at):,} characters, which is too large; write it as "
                "the log's times are"
            )
        for read in (_number, datetime.fromisoformat):
            with suppress(ValueError):
                return read(self.at)
        raise InputError(
            f"--at is {self.at!r}, but must be a number or a date; write it as the log's times are, or like "
            "2016-02-01T12:30"
        )

    def settings(self) -> Config | None:
        """Return the settings for a checkpoint that has none; None if nothing is said."""
        layers = read_layers(self.preset, self.config)
        return config_from(layers) if layers else None


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def parse_predict(args: list[str]) -> PredictCommand:
    """Parse the arguments; InputError with one sentence where they cannot be used."""
    command = CommandParser(PredictCommand, PROGRAM, "run", "run").parse(args)
    _require_a_task(command)
    return command


def _require_a_task(command: PredictCommand) -> None:
    if command.pairs is not None and command.top_k is not None:
        raise InputError("--pairs and --top-k are two tasks; give one of them")
    if (command.top_k is None) != (command.sources is None):
        raise InputError("--top-k says how many and --sources of whom; give both")
    _require_choice(command)
    has_task = command.pairs is not None or command.top_k is not None
    if command.out is not None and not has_task:
        raise InputError("--out says where to write, but neither --pairs nor --top-k what; give one of them")
    if not has_task and command.save is None:
        raise InputError("there is nothing to do; give --pairs, --top-k or --save, or see --help")
    for flag, made in (("--out", command.out), ("--save", command.save)):
        for given in command.given_files():
            if made is not None and resolved(given) == resolved(made):
                raise InputError(f"{given}: would be replaced by the results; choose another {flag}")
    if (
        command.out is not None
        and command.save is not None
        and resolved(command.out) == resolved(command.save)
    ):
        raise InputError(f"{command.out}: is given for results and for the model; choose another --save")
    command.moment()


def _require_choice(command: PredictCommand) -> None:
    """Refuse what says whom to choose from, where nobody is chosen."""
    said = {
        "--candidates": command.candidates != "all",
        "--candidate-count": command.candidate_count is not None,
        "--exclude-seen": command.exclude_seen,
        "--exclude-self": command.exclude_self,
    }
    for flag, is_said in said.items():
        if is_said and command.top_k is None:
            raise InputError(f"{flag} is for --top-k; give it too, or leave {flag} away")
    if command.candidate_count is None:
        return
    if command.candidates == "all" or command.candidates not in STRATEGIES:
        raise InputError(
            "--candidate-count is for --candidates recent, popular or two-hop; choose one of these"
        )
    if command.candidate_count < 1:
        raise InputError(f"--candidate-count is {command.candidate_count}, but must be at least 1; raise it")


def main() -> None:
    run_on_ranks(PROGRAM, parse_predict, _run)


def _run(command: PredictCommand) -> None:
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from tpnet_dist.distributed.failure import ends_together
    from tpnet_dist.distributed.host_memory import keep_large_buffers
    from tpnet_dist.distributed.world import join_world
    from tpnet_dist.prediction.link_file import content_key

    config = command.settings()
    keep_large_buffers()
    with join_world() as world, ends_together(world, PROGRAM):
        # other hosts need not have the folder
        world.on_first_rank(lambda: _require_places(command))
        world.phase.now = "loading"
        # each rank has all of it: links are independent of one another, so ranks need not talk of rows
        predictor = world.on_every_rank(lambda: _load(command, config, world))
        read = [predictor.trained.path, *command.given_files()]
        same = world.on_every_rank(lambda: {f"content of {file.name}": content_key(file) for file in read})
        world.require_agreement({**predictor.log.manifest.content(), **same})
        _predict(command, predictor, world)


def _require_places(command: PredictCommand) -> None:
    from tpnet_dist.prediction.score_file import require_suffix

    if command.out is not None:
        require_suffix(command.out)
        require_place(command.out, "--out")
    if command.save is not None:
        require_place(command.save, "--save")


def _load(command: PredictCommand, config: Config | None, world: "World") -> "Predictor":
    from tpnet_dist.prediction.jobs import observe_file
    from tpnet_dist.prediction.predictor import DEFAULT_CAPACITY, Predictor

    predictor = Predictor.load(
        command.run,
        data=command.data,
        config=config,
        seed=command.seed,
        capacity=DEFAULT_CAPACITY if command.capacity is None else command.capacity,
        device=world.device,
    )
    if command.observe is not None:
        observe_file(predictor, command.observe, _columns(command, predictor))
    return predictor


def _columns(command: PredictCommand, predictor: "Predictor") -> "GivenColumns":
    from tpnet_dist.prediction.link_columns import GivenColumns

    preparation = predictor.log.manifest.preparation
    return GivenColumns(command.src, command.dst, command.time, preparation)


def _predict(command: PredictCommand, predictor: "Predictor", world: "World") -> None:
    from tpnet_dist.files.progress import display_for
    from tpnet_dist.prediction.candidates import DEFAULT_COUNT
    from tpnet_dist.prediction.jobs import Choice, Job
    from tpnet_dist.prediction.link_file import LinkFile

    display, columns = display_for(world.rank), _columns(command, predictor)
    job = Job(
        predictor,
        world,
        display,
        at=command.moment(),
        skip_unknown=command.skip_unknown,
        probability=command.probability,
    )
    if command.pairs is not None:
        pairs = LinkFile(command.pairs, columns)
        job.score(pairs, command.out)
    if command.sources is not None and command.top_k is not None:
        among = command.candidates_file()
        given = None if among is None else job.candidates(LinkFile(among, columns, roles=("dst",)))
        choice = Choice(
            command.top_k,
            command.candidates if given is None else given,
            command.candidate_count or DEFAULT_COUNT,
            exclude_seen=command.exclude_seen,
            exclude_self=command.exclude_self,
        )
        job.rank(LinkFile(command.sources, columns, roles=("src",)), choice, command.out)
    if command.probability:
        display.say(predictor.about_probabilities())
    if command.save is not None:
        path = command.save
        world.on_first_rank(lambda: predictor.save(path))
        display.say(f"{path}: the model, and {predictor.num_observed:,} events observed")


if __name__ == "__main__":
    main()
