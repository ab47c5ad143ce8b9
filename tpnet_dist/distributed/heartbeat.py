"""Every rank says each second that it lives and what it is doing; every rank sees what the others say.

Beats travel through the store of the launch, by a connection and a thread of their own: they go on while the
rank waits in a collective. Silence is measured by the clock of whoever listens, so hosts need not agree on
the time. Nobody but the thread talks to the store: it may never answer, and the rank is to end all the same.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

from tpnet_dist.distributed.launch_environment import launched_by_torchrun
from tpnet_dist.distributed.phase import Phase

SECONDS_PER_BEAT = 1.0
SECONDS_FOR_THE_STORE = 20.0
DONE, LOST = "done", "lost"


@dataclass(frozen=True)
class RankStatus:
    """Holds what a rank last said of itself."""

    rank: int
    host: str
    phase: str
    ending: str = ""
    """Empty while the rank is at work, `done`, `lost` if other ranks have left it, else how it failed."""
    silence: float = 0.0
    """The seconds since the rank said so."""


class Heartbeat:
    """Publishes this rank's status, and knows how long each other one has been silent."""

    def __init__(self, store: Store, rank: int, num_ranks: int, phase: Phase) -> None:
        self.rank, self.ending, self.store_error = rank, "", ""
        self._store, self._phase = store, phase
        self._keys = [f"rank-{number}" for number in range(num_ranks)]
        self._beats = 0
        self._seen: dict[int, tuple[bytes, float]] = {}
        self._hurry, self._is_over = threading.Event(), threading.Event()
        self._watch: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        store.set_timeout(timedelta(seconds=SECONDS_FOR_THE_STORE))
        self._show()

    def start(self, watch: Callable[[], None]) -> None:
        """`watch` is called after each beat, in the thread. Every rank must have made its heartbeat."""
        self._look()
        self._watch = watch
        self._thread.start()

    def statuses(self) -> list[RankStatus]:
        """Return the last status of every rank; this rank too is silent if the store is."""
        now = time.monotonic()
        # a copy in one go: the thread changes it
        seen = dict(self._seen)
        return [_status(rank, text, now - since) for rank, (text, since) in sorted(seen.items())]

    def announce(self, ending: str, seconds: float = 3.0) -> None:
        """Tell the others how this rank ends. Waits until it is said, but not for ever."""
        self.ending = ending
        said, deadline = self._beats, time.monotonic() + seconds
        self._hurry.set()
        # one beat may have been under way with what was true before
        while self._beats < said + 2 and time.monotonic() < deadline and not self.store_error:
            self._hurry.set()
            time.sleep(0.02)

    def stop(self) -> None:
        """End the thread. A process must not end while the thread is inside the store: C++ then aborts it."""
        self._is_over.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(2 * SECONDS_FOR_THE_STORE)

    def _run(self) -> None:
        parent = os.getppid()
        while not self._is_over.is_set():
            self._beat(parent)
            self._watch()
            self._hurry.wait(SECONDS_PER_BEAT)
            self._hurry.clear()

    def _beat(self, parent: int) -> None:
        # other launchers may leave a shell script behind that ends before its ranks
        if launched_by_torchrun() and os.getppid() != parent:
            self.store_error = "its launcher has gone"
            return
        try:
            self._show()
            self._look()
        except RuntimeError as error:  # all errors of a store are
            self.store_error = str(error).splitlines()[0]

    def _show(self) -> None:
        status = {"host": socket.gethostname(), "phase": self._phase.now, "ending": self.ending}
        self._store.set(self._keys[self.rank], json.dumps({**status, "beat": self._beats}))
        self._beats += 1

    def _look(self) -> None:
        now = time.monotonic()
        for rank, text in enumerate(self._store.multi_get(self._keys)):
            if rank not in self._seen or self._seen[rank][0] != text:
                self._seen[rank] = (text, now)


def _status(rank: int, text: bytes, silence: float) -> RankStatus:
    said = json.loads(text)
    return replace(RankStatus(rank, said["host"], said["phase"], said["ending"]), silence=silence)
