"""What was asked of the device: kernels, copies, waits, collectives; and what would go wrong on a GPU."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

ELSEWHERE = "autograd or torch"


def caller() -> str:
    """The line of tpnet_dist that asks."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/tpnet_dist/" in path:
            return f"{path.rpartition('/tpnet_dist/')[2]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ELSEWHERE


def thread_name() -> str:
    """`main`, `backward`, or another thread's own."""
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return "main"
    # autograd's threads are not Python's
    return "backward" if thread.name.startswith("Dummy") else thread.name


@dataclass
class OperationLog:
    """One for the process."""

    kernels: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By caller and operation."""
    copies: Counter[str] = field(default_factory=Counter)
    """To the device, from pinned memory, without waiting; by caller."""
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The host waits for the device; by caller and why."""
    problems: Counter[str] = field(default_factory=Counter)
    """What would hang, corrupt or fail on a GPU."""
    collectives: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    """Of NCCL in the order they were launched: group, name, and sizes where ranks must agree on them."""
    launchers: set[str] = field(default_factory=set)
    """Threads that launched kernels, copies, events or collectives of NCCL."""
    devices: set[int] = field(default_factory=set)
    """Touched by this process."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def kernel(self, name: str) -> None:
        self.launched()
        self.kernels[caller(), name] += 1

    def copy(self) -> None:
        self.launched()
        self.copies[caller()] += 1

    def launched(self) -> None:
        self.launchers.add(thread_name())

    def wait(self, reason: str) -> None:
        self.waits[caller(), reason] += 1

    def problem(self, what: str) -> None:
        self.problems[f"{what}, {caller()}, in {thread_name()}"] += 1

    def collective(self, group: str, name: str, sizes: tuple[int, ...]) -> None:
        self.collectives.append((group, name, sizes))
        self.launched()

    @contextmanager
    def counted_anew(self) -> Iterator["OperationLog"]:
        """Counts of the block alone; problems and collectives are everybody's."""
        alone = OperationLog()
        before = (self.kernels, self.copies, self.waits)
        self.kernels, self.copies, self.waits = alone.kernels, alone.copies, alone.waits
        try:
            yield alone
        finally:
            self.kernels, self.copies, self.waits = before


LOG = OperationLog()
