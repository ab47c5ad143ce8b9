"""Where one rank fails, every rank ends, promptly, and one of them says which rank it was and what it did.

    a rank raises           it says so to the others and shows its traceback; they end
    a rank dies             the others' collectives break; they wait until its signs of life have stopped
    a rank stands still     its heartbeat stops (or others' collectives time out): after the timeout all end
    the launcher has gone   no store, no heartbeat, nobody to start ranks again: each rank ends

The same on every device. Under NCCL a broken collective may not raise: then the heartbeat's thread ends the
process once another rank has said that it lost somebody, or has been silent for longer than the timeout, or
for some seconds after the launcher signalled those that are left.
"""

import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from torch.distributed import DistError, PrefixStore  # type: ignore[attr-defined]

from tpnet_dist.distributed.diagnosis import failed_ranks, failure_sentence, reporting_rank, stuck_ranks
from tpnet_dist.distributed.heartbeat import DONE, LOST, SECONDS_PER_BEAT, Heartbeat, RankStatus
from tpnet_dist.distributed.launch_environment import tell_launcher
from tpnet_dist.distributed.stop_request import ignore_signals
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError, leave, sentence_of, spoken

RANK_LOST = 75
"""The exit code where a rank lost others: EX_TEMPFAIL, "try again"."""
DEFECT = 1
SECONDS_TO_FIND_OUT = 8.0
SECONDS_TO_NOTICE = 15.0
"""The time that this rank may go on after another said that it lost somebody."""

_BROKEN = re.compile(r"gloo|nccl|connection (closed|reset)|broken pipe|timed? ?out", re.IGNORECASE)
_OWN = re.compile(r"cuda failure|unhandled cuda error|invalid usage|out of memory", re.IGNORECASE)
"""What NCCL says where this very rank failed, and no other is to blame."""
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_SOURCE_PLACE = re.compile(r"^\[\S+:\d+\] ")


@contextmanager
def ends_together(world: World, program: str) -> Iterator[None]:
    """Run the block on all ranks; where one of them fails, all processes end."""
    if world.store is None:  # nobody else
        yield
        return
    store = PrefixStore(f"heartbeat-{world.start}", world.store.clone())  # type: ignore[attr-defined]
    end = _End(world, spoken(program), Heartbeat(store, world.rank, world.num_ranks, world.phase))
    try:
        world.wait_for_all()
        end.heartbeat.start(end.watch)
        yield
        world.wait_for_all()
    except (InputError, OSError, MemoryError) as error:
        # said by the command itself, if this is the first rank
        end.heartbeat.announce(sentence_of(error))
        raise
    except Exception as error:
        end.after(error)
    except BaseException:
        end.heartbeat.announce("a signal ended it")
        raise
    else:
        end.heartbeat.announce(DONE)
    finally:
        end.heartbeat.stop()


@dataclass
class _End:
    """Decides how this process ends when it, or another rank, has failed."""

    world: World
    program: str
    heartbeat: Heartbeat
    _is_losing: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def after(self, error: Exception) -> NoReturn:
        """End the process after an error in the main thread."""
        ignore_signals()
        if is_caused_by_a_peer(error):
            self.lost(str(error), timed_out=bool(_TIMED_OUT.search(str(error))))
        traceback.print_exc()
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        tell_launcher(said)
        self.heartbeat.announce(said)
        leave(DEFECT)

    def watch(self) -> None:
        """Look after each beat, in its thread, since the main thread may wait for a rank that never comes."""
        heartbeat = self.heartbeat
        if heartbeat.ending:
            return
        others = [status for status in heartbeat.statuses() if status.rank != self.world.rank]
        if heartbeat.store_error:
            # others may just have finished, and the store with them
            self._lose_aside(heartbeat.store_error, after=SECONDS_PER_BEAT)
        elif any(_is_overdue(status, self.world.timeout.total_seconds()) for status in others):
            self._lose_aside("no sign of life", timed_out=True)
        elif any(status.ending not in ("", DONE) for status in others):
            self._lose_aside("other ranks have ended", after=SECONDS_TO_NOTICE)
        elif self.world.stop.seconds_unpolled() > SECONDS_TO_FIND_OUT:
            self._stop_or_lose()
        elif self.world.stop.was_signalled() and self._misses_somebody():
            # torchrun signals those that are left and, half a minute later, kills them without a word; but
            # whoever was only busy when the run was asked to stop is back by then
            self._lose_aside("signalled", after=SECONDS_TO_NOTICE, if_still=self._misses_somebody)

    def lost(self, reason: str, *, timed_out: bool) -> None:
        """Find out who is to blame, have one rank say it, and end the process."""
        with self._lock:  # whoever comes second waits for the end of the process
            self.heartbeat.ending = LOST
            blamed, statuses = self._find_out()
            if not blamed:
                self._say_on_each_host(_in_one_line(self.heartbeat.store_error or reason))
            elif reporting_rank(statuses, blamed) == self.world.rank:
                self._say(failure_sentence(blamed, timed_out=timed_out, reason=_in_one_line(reason)))
            leave(RANK_LOST)

    def _stop_or_lose(self) -> None:
        """End a run that was signalled while it starts: because a rank died, or because it is to stop."""
        if self._misses_somebody():
            self._lose_aside("signalled")
            return
        number = signal.Signals(self.world.stop.number)
        if self.world.rank_of_node == 0:
            line = f"{self.program}: stopped by {number.name} during {self.world.phase.now}"
            print(line, file=sys.stderr, flush=True)
        leave(128 + number)

    def _misses_somebody(self) -> bool:
        return bool(failed_ranks(self.heartbeat.statuses()))

    def _lose_aside(
        self,
        reason: str,
        *,
        after: float = 0.0,
        timed_out: bool = False,
        if_still: Callable[[], bool] = lambda: True,
    ) -> None:
        """End the process in a thread of its own, so that the heartbeat goes on. Until then the main thread
        may end by itself, which is better: an error of its own says more."""

        def lose() -> None:
            time.sleep(after)
            self._is_losing = False
            if not self.heartbeat.ending and if_still():
                self.lost(reason, timed_out=timed_out)

        if not self._is_losing:
            self._is_losing = True
            threading.Thread(target=lose, daemon=True).start()

    def _find_out(self) -> tuple[list[RankStatus], list[RankStatus]]:
        """Return who is to blame, and the statuses that say so; nobody, if the store does not answer."""
        deadline = time.monotonic() + SECONDS_TO_FIND_OUT
        while time.monotonic() < deadline and not self.heartbeat.store_error:
            statuses = self.heartbeat.statuses()
            if self._hears(statuses) and (blamed := failed_ranks(statuses)):
                return blamed, statuses
            time.sleep(SECONDS_PER_BEAT / 4)
        statuses = self.heartbeat.statuses()
        return (stuck_ranks(statuses) if self._hears(statuses) else []), statuses

    def _hears(self, statuses: list[RankStatus]) -> bool:
        """Return whether this rank hears itself: whoever does not hear himself cannot tell who is silent; nor
        who has not listened yet."""
        own = [status.silence for status in statuses if status.rank == self.world.rank]
        return not self.heartbeat.store_error and bool(own) and own[0] < 2 * SECONDS_PER_BEAT

    def _say_on_each_host(self, reason: str) -> None:
        if self.world.rank_of_node == 0:
            who = f"rank {self.world.rank} lost the others during {self.world.phase.now}"
            self._say(f"{who}: {reason}")

    def _say(self, sentence: str) -> None:
        line = f"{self.program}: {sentence}; the run ends; {self.world.phase.remedy}"
        tell_launcher(line)
        print(line, file=sys.stderr, flush=True)


def is_caused_by_a_peer(error: Exception) -> bool:
    """Return whether other ranks broke the collective that this error ended."""
    text = str(error)
    is_broken = isinstance(error, DistError) or (isinstance(error, RuntimeError) and _BROKEN.search(text))
    return bool(is_broken and not _OWN.search(text))


def _in_one_line(reason: str) -> str:
    # libraries begin with the place in their source
    return _SOURCE_PLACE.sub("", " ".join(reason.split()))


def _is_overdue(status: RankStatus, timeout: float) -> bool:
    return not status.ending and status.silence > timeout
