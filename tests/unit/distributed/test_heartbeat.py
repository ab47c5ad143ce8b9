"""The heart of a rank beats in a thread that is over before the rank is."""

import threading
import time

from torch.distributed import HashStore, PrefixStore, Store  # type: ignore[attr-defined]

from tpnet_dist.distributed.heartbeat import DONE, Heartbeat
from tpnet_dist.distributed.phase import Phase


class _SlowStore(PrefixStore):  # type: ignore[misc]
    """Says when it is being talked to, and takes its time."""

    def __init__(self, store: Store) -> None:
        super().__init__("slow", store)
        self.is_slow, self.is_asked = False, threading.Event()

    def set(self, key: str, value: str) -> None:
        if self.is_slow:
            self.is_asked.set()
            time.sleep(0.5)
        super().set(key, value)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_no_thread_is_left_inside_the_store_after_stop() -> None:
    store = _SlowStore(HashStore())
    heartbeat = Heartbeat(store, 0, 1, Phase())
    store.is_slow = True
    heartbeat.start(lambda: None)
    assert store.is_asked.wait(10)
    heartbeat.stop()
    assert "heartbeat" not in _threads()


def test_the_ending_is_told_before_announce_returns() -> None:
    store = HashStore()
    first, second = (Heartbeat(store, rank, 2, Phase()) for rank in range(2))
    for heartbeat in (first, second):
        heartbeat.start(lambda: None)
    first.announce(DONE)
    second.announce(DONE)
    assert [status.ending for status in second.statuses()] == [DONE, DONE]
    for heartbeat in (first, second):
        heartbeat.stop()
