"""`python -m tpnet_dist.serve RUN`: score links, rank destinations and take events, over HTTP."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from tpnet_dist.config.commands import CommandParser
from tpnet_dist.errors import InputError, errors_for_people, spoken

if TYPE_CHECKING:
    from tpnet_dist.serving.server import ServerSettings

PROGRAM = "python -m tpnet_dist.serve"
TOKEN_VARIABLE = "TPNET_SERVE_TOKEN"
FEWEST_TOKEN = 16


@dataclass(kw_only=True)
class ServeCommand:
    """Answer over HTTP what a trained model is asked: /score, /top-k, /observe, /health, /metrics; /docs says
    how. Stops with SIGTERM or Ctrl-C when all that was asked is answered.

    Observed events are on disk before they are acknowledged, and known again at the next start. Only this
    machine can ask, unless --host says otherwise, which takes a token: of --token-file, or of
    TPNET_SERVE_TOKEN in the environment.

    Example: python -m tpnet_dist.serve runs/mine --port 8080
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of a run, a checkpoint, or a predictor that was saved."""
    port: Annotated[int, arg(metavar="PORT")] = 8080
    """Where; 0 takes any that is free."""
    host: Annotated[str, arg(metavar="HOST")] = "127.0.0.1"
    """The address to listen at."""
    token_file: Annotated[Path | None, arg(metavar="FILE")] = None
    """A file with nothing but the token that requests must have."""
    state: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where observed events and rows are kept; by default serving/ in the run, or beside the file."""
    capacity: Annotated[int, arg(metavar="COUNT")] = 1000
    """How many nodes that are not in the log may be observed."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """The data folder, if it has moved."""
    seed: Annotated[int | None, arg(metavar="SEED")] = None
    """Which one of a run with several; by default the first."""
    most_megabytes: Annotated[int, arg(metavar="COUNT")] = 8
    """How large a request may be."""
    most_links: Annotated[int, arg(metavar="COUNT")] = 20_000
    """How many links a /top-k may score: sources times candidates. Events wait until it is answered."""
    most_waiting: Annotated[int, arg(metavar="COUNT")] = 200
    """How many requests may wait; more are told to come back."""
    debug: bool = False
    """Show the traceback of an error."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("port", 0, 65_535),
            ("capacity", 0, 1 << 30),
            ("most_megabytes", 1, 1000),
            ("most_links", 1, 100_000_000),
            ("most_waiting", 1, 100_000),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                flag = name.replace("_", "-")
                raise InputError(f"--{flag} is {value:,}, but must be within {least:,}…{most:,}; change it")


def parse_serve(args: list[str]) -> ServeCommand:
    return CommandParser(ServeCommand, PROGRAM, "run", "run").parse(args)


def token_of(command: ServeCommand) -> str | None:
    """The file's, or the environment's; None if nobody gave one."""
    if command.token_file is None:
        token, where = os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        if not token:
            return None
    else:
        where = str(command.token_file)
        try:
            token = command.token_file.read_text().strip()
        except UnicodeDecodeError:
            token = ""
    if len(token) < FEWEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{where}: the token is not {FEWEST_TOKEN} or more letters and digits without blanks; make one "
            "with: openssl rand -hex 32"
        )
    return token


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        _run(parse_serve(sys.argv[1:]))


def _run(command: ServeCommand) -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"the package {error.name} is not installed; run: pip install 'tpnet-dist[serve]'"
        ) from error
    from tpnet_dist.serving.server import require_guarded, serve

    settings = _settings(command)
    require_guarded(settings.host, settings.token)
    serve(settings, lambda text: print(f"{spoken(PROGRAM)}: {text}", flush=True))


def _settings(command: ServeCommand) -> "ServerSettings":
    from tpnet_dist.serving.server import ServerSettings

    run = command.run
    return ServerSettings(
        run=run,
        state=command.state or (run / "serving" if run.is_dir() else run.with_name(f"{run.name}.serving")),
        data=command.data,
        seed=command.seed,
        capacity=command.capacity,
        host=command.host,
        port=command.port,
        token=token_of(command),
        most_bytes=command.most_megabytes * 1_000_000,
        most_waiting=command.most_waiting,
        most_links=command.most_links,
    )


if __name__ == "__main__":
    main()
