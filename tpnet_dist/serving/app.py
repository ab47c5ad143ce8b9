"""The paths of the service, as FastAPI documents and serves them."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer

from tpnet_dist.errors import InputError
from tpnet_dist.serving.observing import Conflict, NoRoom
from tpnet_dist.serving.schemas import (
    Health,
    ObserveAnswer,
    ObserveRequest,
    Problem,
    ScoreAnswer,
    ScoreRequest,
    TopKAnswer,
    TopKRequest,
)
from tpnet_dist.serving.service_metrics import TEXT, ServiceMetrics
from tpnet_dist.serving.worker import Busy, Defect, Stopping, Worker

_ABOUT = """Scores links of a temporal graph, finds the most likely destinations of a source, and takes new
events, which later scores know of. Ids and times are those of the raw data. Whatever cannot be used gets one
sentence in `detail`."""
_MEANINGS = {
    400: "Not JSON, or not whole.",
    401: "No token, or not the right one.",
    403: "Another server was meant, by the Host header.",
    408: "The body did not arrive in time.",
    409: "Other events have happened than `if_events` says.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "Something in it cannot be used.",
    500: "A defect.",
    503: "Too much waits, the server ends, or the disk is full: try again later.",
}
_STATUSES: dict[type[Exception], int] = {
    InputError: 422,
    Conflict: 409,
    NoRoom: 503,
    Busy: 503,
    Stopping: 503,
    Defect: 500,
}
_OF_EVERY_PATH = (401, 403)
_OF_QUESTIONS = (400, *_OF_EVERY_PATH, 408, 413, 415, 422, 500, 503)


@dataclass(frozen=True)
class Service:
    """What paths need."""

    worker: Worker
    metrics: ServiceMetrics
    health: Callable[[], Health]


def create_app(service: Service) -> FastAPI:
    app = FastAPI(
        title="tpnet_dist",
        description=_ABOUT,
        version=version("tpnet-dist"),
        redoc_url=None,
    )
    _add_questions(app, service)
    _add_views(app, service)
    app.add_exception_handler(RequestValidationError, _of_validation)
    for kind, status in _STATUSES.items():
        app.add_exception_handler(kind, _with_status(status))
    return app


def _add_questions(app: FastAPI, service: Service) -> None:
    token = [Depends(HTTPBearer(auto_error=False, description="Where the server was given a token."))]
    answer = service.worker.answer

    @app.post("/score", responses=_problems(*_OF_QUESTIONS), dependencies=token)
    async def score(request: ScoreRequest) -> ScoreAnswer:
        """How likely links are."""
        found: ScoreAnswer = await answer(request)
        return found

    @app.post("/top-k", responses=_problems(*_OF_QUESTIONS), dependencies=token)
    async def top_k(request: TopKRequest) -> TopKAnswer:
        """The most likely destinations of sources: exact, each candidate is scored."""
        found: TopKAnswer = await answer(request)
        return found

    @app.post("/observe", responses=_problems(*_OF_QUESTIONS, 409), dependencies=token)
    async def observe(request: ObserveRequest) -> ObserveAnswer:
        """Take events, all of the request or none. They are on disk when the answer comes."""
        found: ObserveAnswer = await answer(request)
        return found

    text: dict[int | str, dict[str, Any]] = {
        200: {"description": "Counts and times.", "content": {"text/plain": {}}}
    }

    @app.get(
        "/metrics",
        responses={**text, **_problems(*_OF_EVERY_PATH)},
        response_class=Response,
        dependencies=token,
    )
    async def metrics() -> Response:
        """Counts and times in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=TEXT)


def _add_views(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=_problems(403))
    async def health() -> Health:
        """Whether the service answers, and what it knows."""
        return service.health()


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem, "description": _MEANINGS[status]} for status in statuses}


def _with_status(status: int) -> Callable[[Request, Exception], JSONResponse]:
    headers = {"retry-after": "1"} if status == 503 else None

    def answer(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status, headers)

    return answer


def _of_validation(request: Request, error: Exception) -> JSONResponse:
    """One sentence; what was sent is not repeated, since it may be no text at all."""
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        return JSONResponse({"detail": "the body is not valid JSON; send one object"}, 400)
    place = _place(errors[0]["loc"])
    rules = dict.fromkeys(
        each["msg"].removeprefix("Input ") for each in errors if _place(each["loc"]) == place
    )
    return JSONResponse({"detail": f"{place or 'the body'}: {', or '.join(rules)}; see /docs"}, 422)


def _place(where: Sequence[int | str]) -> str:
    """Return the first field and position that a rule is about, without the kind of value that was tried."""
    field, *inner = where[1:] or ("",)
    positions = itertools.takewhile(lambda part: isinstance(part, int), inner)
    return f"{field!s:.60}" + "".join(f"[{position}]" for position in positions)
