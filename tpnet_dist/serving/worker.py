"""The one thread that asks the predictor and tells it of events.

turn    1. all events that wait are recorded and synced together, unless a long question is half answered
        2. all short questions that wait are scored together
        3. one piece of a long question: it is answered of one moment, however many turns it takes
"""

import asyncio
import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpnet_dist.errors import InputError
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.serving.observing import Observer
from tpnet_dist.serving.questions import (
    Links,
    Pieces,
    PieceSize,
    links_of,
    score_answer,
    score_in_pieces,
    score_together,
    top_k_in_pieces,
)
from tpnet_dist.serving.schemas import ObserveRequest, ScoreRequest, TopKRequest

SHORT, SHORT_TOGETHER = 32, 64
"""Links of a short question, and of those scored together."""

Request = ScoreRequest | TopKRequest | ObserveRequest


class Busy(Exception):
    """Raised when the queue of requests is full."""

    def __str__(self) -> str:
        return "too many requests wait; try again later"


class Stopping(Exception):
    """The server ends, and will not answer."""

    def __str__(self) -> str:
        return "the server ends; try again when it is back"


class Defect(Exception):
    """An error of ours; its traceback is in the server's output."""

    def __str__(self) -> str:
        return "this request met a defect of the server; its traceback is in the server's output"


@dataclass(frozen=True)
class Job:
    """A request and where its answer is awaited."""

    request: Any
    future: asyncio.Future[Any]

    @property
    def is_short(self) -> bool:
        return isinstance(self.request, ScoreRequest) and len(self.request.src) <= SHORT


@dataclass
class Waiting:
    """Holds waiting requests by how they are answered, each in order of arrival."""

    events: deque[Job] = field(default_factory=deque)
    short: deque[Job] = field(default_factory=deque)
    long: deque[Job] = field(default_factory=deque)

    def add(self, job: Job) -> None:
        is_event = isinstance(job.request, ObserveRequest)
        (self.events if is_event else self.short if job.is_short else self.long).append(job)

    def __len__(self) -> int:
        return len(self.events) + len(self.short) + len(self.long)

    def jobs(self) -> list[Job]:
        return [*self.events, *self.short, *self.long]


class Worker:
    """Owns the predictor from `start` to `stop`."""

    def __init__(
        self,
        predictor: Predictor,
        observer: Observer,
        *,
        most_waiting: int,
        most_links: int,
        scored_together: Callable[[int], None] = lambda links: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`failed`: called where the worker ends by itself; `failure` says why."""
        # config
        self.most_waiting, self.most_links = most_waiting, most_links
        # parts
        self.predictor, self.observer = predictor, observer
        self._scored_together, self.failed = scored_together, failed
        self._thread = threading.Thread(target=self._run, name="worker")
        self._condition = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        # progress
        self.failure: BaseException | None = None
        self.unanswered = 0
        """Requests that wait or are worked on; changed in the event loop alone."""
        self._waiting = Waiting()
        self._taken: list[Job] = []
        """Those answered last, or being so."""
        self._stops = False
        self._piece_size = PieceSize()
        self._current: tuple[Job, Pieces[Any]] | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What waits is answered first."""
        with self._condition:
            self._stops = True
            self._condition.notify()
        self._thread.join()

    async def answer(self, request: Request) -> Any:  # noqa: ANN401 — as the request
        """The answer, or InputError, Conflict, NoRoom, Busy, Stopping, Defect."""
        if self.unanswered >= self.most_waiting:
            raise Busy
        self._loop = asyncio.get_running_loop()
        job = Job(request, self._loop.create_future())
        with self._condition:
            if self._stops:
                raise Stopping
            self._waiting.add(job)
            self._condition.notify()
        self.unanswered += 1
        try:
            # an answer is due even if nobody waits for it any more: events are taken all the same
            return await asyncio.shield(job.future)
        finally:
            self.unanswered -= 1

    def _run(self) -> None:
        try:
            while self._wait():
                self._turn()
        except BaseException as error:
            self.failure = error
        with self._condition:
            self._stops = True
            left = [*self._taken, *self._waiting.jobs(), *([self._current[0]] if self._current else [])]
        self._settle([(job, Stopping()) for job in left])
        if self.failure is not None:
            self.failed()

    def _wait(self) -> bool:
        """Wait until there is something to do; return False when all is done and no more will come."""
        with self._condition:
            self._condition.wait_for(lambda: self._stops or self._current or len(self._waiting))
            return bool(self._current or len(self._waiting))

    def _turn(self) -> None:
        if self._current is None:
            self._take_events()
        self._answer_short()
        self._answer_a_piece()

    def _take_events(self) -> None:
        if jobs := self._take(self._waiting.events):
            results = self.observer.observe([job.request for job in jobs])
            self._settle(list(zip(jobs, results, strict=True)))

    def _answer_short(self) -> None:
        jobs: list[Job] = []
        some: list[Links] = []
        for job in self._take(self._waiting.short, SHORT_TOGETHER):
            try:
                some.append(links_of(self.predictor, job.request))
                jobs.append(job)
            except InputError as error:
                self._settle([(job, error)])
        if jobs:
            self._settle(self._score(jobs, some))

    def _score(self, jobs: list[Job], some: list[Links]) -> list[tuple[Job, Any]]:
        try:
            scores = score_together(self.predictor, some)
        except Exception as error:
            if len(jobs) > 1:  # whose fault it is, each finds out alone
                alone = zip(jobs, some, strict=True)
                return [settled for job, links in alone for settled in self._score([job], [links])]
            return [(jobs[0], self._judged(error))]
        self._scored_together(sum(map(len, some)))
        answers = [score_answer(self.predictor, each) for each in scores]
        return list(zip(jobs, answers, strict=True))

    def _answer_a_piece(self) -> None:
        if self._current is None:
            if not (jobs := self._take(self._waiting.long, 1)):
                return
            self._current = jobs[0], self._pieces(jobs[0].request)
        job, pieces = self._current
        try:
            next(pieces)
        except StopIteration as end:
            self._current = None
            self._settle([(job, end.value)])
        except Exception as error:
            self._current = None
            self._settle([(job, self._judged(error))])

    def _pieces(self, request: ScoreRequest | TopKRequest) -> Pieces[Any]:
        if isinstance(request, ScoreRequest):
            return score_in_pieces(self.predictor, request, self._piece_size)
        return top_k_in_pieces(self.predictor, request, self._piece_size, self.most_links)

    def _judged(self, error: Exception) -> Exception:
        """What the user hears of an error while scoring. One of ours is fatal only if the next question meets
        it too."""
        if isinstance(error, InputError):
            return error
        traceback.print_exception(error)
        self.warm_up()
        return Defect()

    def warm_up(self) -> None:
        """Score a link, whichever."""
        somebody = self.predictor.ids.raw_of(self.predictor.ids.destinations()[:1])
        self.predictor.score(somebody, somebody, self.predictor.now, unknown="score")

    def _take(self, waiting: deque[Job], most_links: float = math.inf) -> list[Job]:
        """The first that wait."""
        jobs: list[Job] = []
        links = 0
        with self._condition:
            while waiting and links < most_links:
                jobs.append(waiting.popleft())
                links += len(jobs[-1].request.src)
        self._taken = jobs
        return jobs

    def _settle(self, results: Sequence[tuple[Job, Any]]) -> None:
        if results and self._loop is not None:
            self._loop.call_soon_threadsafe(_deliver, results)


def _deliver(results: Sequence[tuple[Job, Any]]) -> None:
    for job, result in results:
        if job.future.done():
            continue
        if isinstance(result, BaseException):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
