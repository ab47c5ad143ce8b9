"""Gloo ranks that live as long as the tests: real processes, one thread each, tasks sent to all at once.

A rank that fails is the caller's exception, traceback included; the processes are then replaced by new ones,
because the other ranks may be stuck in a collective.
"""

import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist

from tpnet_dist.distributed.exchange import RankExchange
from tpnet_dist.distributed.world import World

Result = TypeVar("Result")

COLLECTIVE_TIMEOUT = timedelta(seconds=60)
TASK_SECONDS = 120.0
SECONDS_FOR_OTHERS_TO_FAIL = 0.3
"""The time in which other ranks may fail too: where one dies, another may be the first to complain."""


class RankFailure(Exception):
    """A rank raised, died or did not finish; the message says which, and shows its traceback."""


@dataclass(frozen=True)
class Failed:
    """A rank's failure, in place of its result."""

    message: str


@dataclass(frozen=True)
class RankProcess:
    process: BaseProcess
    connection: Connection


class RankPool:
    """`num_ranks` processes in one gloo world, started with the first task.

    `keeps_groups`: whether what a task has built on groups of its own is of use to later ones; else they get
    the same groups. `start_method`: spawned ranks import all they need, which takes seconds; forked ones come
    from a server that has imported it (`set_forkserver_preload`) and done nothing else.
    """

    def __init__(
        self,
        num_ranks: int,
        *,
        keeps_groups: bool = True,
        start_method: Literal["spawn", "forkserver"] = "spawn",
    ) -> None:
        self.num_ranks, self.keeps_groups = num_ranks, keeps_groups
        self._processes: Any = get_context(start_method)
        self._ranks: list[RankProcess] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(
        self, function: Callable[..., Result], *args: object, seconds: float = TASK_SECONDS
    ) -> list[Result]:
        """Run `function(world, *args)` on every rank, which must be found by name; results in order of
        ranks."""
        task = pickle.dumps((function, args))
        if not self._ranks:
            self._start()
        try:
            for rank in self._ranks:
                rank.connection.send_bytes(task)
            return self._collect(time.monotonic() + seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, whatever they are doing: they hold nothing worth saving."""
        for rank in self._ranks:
            rank.process.kill()
            rank.process.join()
            rank.connection.close()
        self._ranks = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        for rank in range(self.num_ranks):
            ours, theirs = self._processes.Pipe()
            meeting_point = Path(self._folder.name) / "rendezvous"
            args = (theirs, rank, self.num_ranks, meeting_point, self.keeps_groups)
            process = self._processes.Process(target=_serve, args=args, daemon=True)
            process.start()
            # with our copy closed, a rank's death is the end of its pipe
            theirs.close()
            self._ranks.append(RankProcess(process, ours))

    def _collect(self, deadline: float) -> list[Any]:
        results: dict[int, Any] = {}
        failures: dict[int, str] = {}
        while len(results) < self.num_ranks and (remaining := deadline - time.monotonic()) > 0:
            waiting = [rank.connection for n, rank in enumerate(self._ranks) if n not in results]
            ready = wait(waiting, timeout=remaining)
            for rank in [n for n, one in enumerate(self._ranks) if one.connection in ready]:
                results[rank] = self._receive(rank)
                if isinstance(results[rank], Failed):
                    failures[rank] = results[rank].message
                    deadline = min(deadline, time.monotonic() + SECONDS_FOR_OTHERS_TO_FAIL)
        late = [rank for rank in range(self.num_ranks) if rank not in results]
        if failures or late:
            raise RankFailure(_report(failures, late, self.num_ranks))
        return [results[rank] for rank in range(self.num_ranks)]

    def _receive(self, rank: int) -> Any:  # noqa: ANN401 — whatever the function returns
        try:
            return pickle.loads(self._ranks[rank].connection.recv_bytes())
        except (EOFError, ConnectionError):
            process = self._ranks[rank].process
            process.join()
            return Failed(f"ended with exit code {process.exitcode}")


@dataclass(frozen=True)
class PoolWorld(World):
    """Has groups in stock: making one takes a while, and its threads stay."""

    stock: list[dist.ProcessGroup] = field(default_factory=list, compare=False)
    in_use: list[dist.ProcessGroup] = field(default_factory=list, compare=False)

    def new_exchange(self) -> RankExchange:
        """Make an exchange. All ranks ask in the same order, so all get the same group; here a world of one
        has one too."""
        if not self.stock:
            group = dist.new_group(timeout=self.timeout)
            assert isinstance(group, dist.ProcessGroup)
            self.stock.append(group)
        self.in_use.append(self.stock.pop())
        return RankExchange(self.in_use[-1], self.device)

    def take_groups_back(self) -> None:
        while self.in_use:
            self.stock.append(self.in_use.pop())


class RankPools:
    """A pool for each number of ranks that is asked for."""

    def __init__(self) -> None:
        self._pools: dict[int, RankPool] = {}

    def __getitem__(self, num_ranks: int) -> RankPool:
        if num_ranks not in self._pools:
            self._pools[num_ranks] = RankPool(num_ranks, keeps_groups=False, start_method="forkserver")
        return self._pools[num_ranks]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


@contextmanager
def world_of_one() -> Iterator[World]:
    """Yield a gloo world in this process, for what wants one also on a single rank."""
    dist.init_process_group(
        "gloo",
        store=dist.HashStore(),  # type: ignore[attr-defined]
        rank=0,
        world_size=1,
        timeout=COLLECTIVE_TIMEOUT,
    )
    try:
        yield _world_on_host(0, 1)
    finally:
        dist.destroy_process_group()


def _serve(
    connection: Connection, rank: int, num_ranks: int, meeting_point: Path, keeps_groups: bool
) -> None:
    """Live as a rank: join the others, then do one task after another until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started the pool ends it
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting_point}",
        rank=rank,
        world_size=num_ranks,
        timeout=COLLECTIVE_TIMEOUT,
    )
    world = _world_on_host(rank, num_ranks)
    while True:
        try:
            task = connection.recv_bytes()
        except EOFError:
            return
        connection.send_bytes(_answer(task, world))
        if not keeps_groups:
            world.take_groups_back()


def _world_on_host(rank: int, num_ranks: int) -> PoolWorld:
    return PoolWorld(
        rank=rank,
        num_ranks=num_ranks,
        rank_of_node=rank,
        ranks_per_node=num_ranks,
        device=torch.device("cpu"),
        timeout=COLLECTIVE_TIMEOUT,
    )


def _answer(task: bytes, world: World) -> bytes:
    """Do a task, and return the answer. Tensors go through the pipe as bytes: shared memory would outlive a
    rank that is killed."""
    try:
        function, args = pickle.loads(task)
        return pickle.dumps(function(world, *args))
    except Exception:
        return pickle.dumps(Failed("raised\n\n" + traceback.format_exc()))


def _report(failures: dict[int, str], late: list[int], num_ranks: int) -> str:
    lines = [f"rank {rank} of {num_ranks} {message}" for rank, message in sorted(failures.items())]
    if late:
        lines.append(f"still at work: ranks {late} of {num_ranks}")
    return "\n".join(lines)
