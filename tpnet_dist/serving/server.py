"""One server process: its address, its life from loading to the last answer, its end."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.routing import Route

from tpnet_dist.errors import InputError
from tpnet_dist.serving.app import Service, create_app
from tpnet_dist.serving.guard import Guard, Rules, is_loopback
from tpnet_dist.serving.observing import Observer
from tpnet_dist.serving.schemas import Health
from tpnet_dist.serving.service_metrics import ServiceMetrics
from tpnet_dist.serving.state_folder import ServedState, served_state
from tpnet_dist.serving.worker import Worker

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SWITCH_SECONDS = 0.0005
"""How long the worker may keep the interpreter from the event loop; Python's own 5 ms are felt, since a
request passes from one to the other several times."""
_CONNECTIONS = 500
_LAST_ANSWERS_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What a server is to be."""

    run: Path
    state: Path
    data: Path | None
    seed: int | None
    capacity: int
    host: str
    port: int
    token: str | None
    most_bytes: int
    most_waiting: int
    most_links: int


class _Server(uvicorn.Server):
    """Ends with what is under way, and leaves the exit code to us."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True


def serve(settings: ServerSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was asked, sync, and keep rows."""
    # an address that cannot be had is not to be found out after loading
    with bound_socket(settings.host, settings.port) as listener:
        say(f"loading {settings.run}")
        with served_state(
            settings.run,
            settings.state,
            data=settings.data,
            seed=settings.seed,
            capacity=settings.capacity,
            say=say,
        ) as state:
            _answer(state, settings, listener, say)
        say(f"ended; {state.predictor.num_observed:,} observed events are in {state.journal.path}")


def bound_socket(host: str, port: int) -> socket.socket:
    """Bound, not listening yet: until then who comes is turned away."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened at ({error.strerror}); choose another --port or --host"
        ) from error
    return listener


def require_guarded(host: str, token: str | None) -> None:
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host is {host}, which other machines can reach, and there is no token; give --token-file, or "
            "leave --host away"
        )


def _answer(
    state: ServedState, settings: ServerSettings, listener: socket.socket, say: Callable[[str], None]
) -> None:
    predictor, metrics = state.predictor, ServiceMetrics()
    worker = Worker(
        predictor,
        Observer(predictor, state.journal, metrics.committed),
        most_waiting=settings.most_waiting,
        most_links=settings.most_links,
        scored_together=metrics.scored_together,
        failed=lambda: server.handle_exit(signal.SIGTERM, None),
    )
    worker.warm_up()
    metrics.show(
        {
            "tpnet_events": ("Events that have happened.", lambda: predictor.num_events),
            "tpnet_events_observed": ("Of these, those observed.", lambda: predictor.num_observed),
            "tpnet_waiting_requests": ("Requests unanswered.", lambda: worker.unanswered),
            "tpnet_journal_bytes": ("Size of the write-ahead file.", lambda: state.journal.size),
        }
    )
    app = create_app(Service(worker, metrics, lambda: _health(state, worker)))
    routes = [route for route in app.routes if isinstance(route, Route)]
    rules = Rules(
        settings.token,
        frozenset(route.path for route in routes if "POST" in (route.methods or ())),
        settings.most_bytes,
        _LOCAL_NAMES | {settings.host},
    )
    paths = frozenset(route.path for route in routes)
    server = _Server(_uvicorn_config(Guard(app, rules=rules, answered=metrics.answered, paths=paths)))
    sys.setswitchinterval(_SWITCH_SECONDS)
    listener.listen(_CONNECTIONS)
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    say(f"ready at {url}, {predictor.num_events:,} events, {predictor.num_observed:,} of them observed")
    worker.start()
    try:
        asyncio.run(server.serve([listener]))
    finally:
        worker.stop()
    if worker.failure is not None:
        raise worker.failure


def _uvicorn_config(app: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_LAST_ANSWERS_SECONDS,
    )


def _health(state: ServedState, worker: Worker) -> Health:
    predictor = state.predictor
    return Health(
        status="ok",
        model=predictor.trained.config.model.name,
        log=predictor.log.manifest.log_id,
        now=predictor.now,
        events=predictor.num_events,
        observed=predictor.num_observed,
        waiting=worker.unanswered,
    )
