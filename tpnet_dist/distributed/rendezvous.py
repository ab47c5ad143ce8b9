"""Ranks of one start find one another in a store that ranks of earlier starts have used.

torchrun's store outlives its ranks, and nothing in their environment tells one start from another on every
machine: torchrun counts restarts by machine, and only where a rank failed. So the first rank makes up a name
for the start, and the others ask it. A question is new with every process: no answer was one to the dead.

    1. ask      each other rank puts down a question of its own
    2. answer   the first rank puts the start's name beside every question it finds, until all have nodded
    3. nod      whoever reads the answer to its own question says so, under the start's name

Two ranks; `b7` was asked by a rank 1 that has died since:

    rank 0                          store                                rank 1
                                    ask-1: b7
    it is start `s2`; answers b7    ask-1: b7, answer-b7: s2
                                    ask-1: e4, answer-b7: s2             asks e4
    answers e4                      ask-1: e4, answer-e4: s2
    goes on with s2                 nod-s2-1                             reads s2, nods, goes on with it
"""

import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from tpnet_dist.errors import UnmetError

SECONDS_PER_LOOK = 0.02
"""Waits inside the store are short, so that a signal is heard between them."""


def agree_on_start(store: Store, rank: int, num_ranks: int, timeout: timedelta) -> str:
    """Return a name that all ranks of this start get, and no rank of another."""
    table = PrefixStore("meeting", store)
    deadline = _Deadline(timeout)
    return _lead(table, num_ranks, deadline) if rank == 0 else _follow(table, rank, deadline)


class _Deadline:
    def __init__(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()
        self._end = time.monotonic() + self._seconds

    def hold(self, missing: str) -> None:
        """Wait a moment for the missing ranks; after the deadline raise an error that names them."""
        if time.monotonic() > self._end:
            raise UnmetError(
                f"{missing} did not come within {self._seconds:g} s; see what ended or holds up the missing "
                "ranks, and start all again"
            )
        time.sleep(SECONDS_PER_LOOK)


def _lead(table: PrefixStore, num_ranks: int, deadline: _Deadline) -> str:
    start = uuid4().hex
    missing = list(range(1, num_ranks))
    while missing := [rank for rank in missing if not table.check([f"nod-{start}-{rank}"])]:
        # 2. answer
        for rank in missing:
            if table.check([f"ask-{rank}"]):
                table.set(f"answer-{table.get(f'ask-{rank}').decode()}", start)
        deadline.hold(f"{'rank' if len(missing) == 1 else 'ranks'} {', '.join(map(str, missing))}")
    return start


def _follow(table: PrefixStore, rank: int, deadline: _Deadline) -> str:
    # 1. ask
    question = uuid4().hex
    table.set(f"ask-{rank}", question)
    while not table.check([f"answer-{question}"]):
        deadline.hold("rank 0")
    # 3. nod
    start: str = table.get(f"answer-{question}").decode()
    table.set(f"nod-{start}-{rank}", "")
    return start
