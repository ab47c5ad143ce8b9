"""Events that say the same as an earlier one. They have its time, so groups of equal times are looked at
alone."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.spill import CodedEvents, join
from tpnet_dist.events.features import Features

Rows = npt.NDArray[np.int64]


def without_duplicates(
    blocks: Iterable[CodedEvents], features_of: Callable[[Rows], Features | None]
) -> Iterator[CodedEvents]:
    """Yield the events without duplicates. `blocks` are in order of time. The last group of equal times waits
    for what the next block adds to it."""
    waiting: list[CodedEvents] = []
    for block in blocks:
        first_of_last = int(np.searchsorted(block.time, block.time[-1]))
        if waiting and waiting[-1].time[-1] == block.time[-1]:
            waiting.append(block)
            continue
        yield _distinct(join([*waiting, block[:first_of_last]]), features_of)
        waiting = [block[first_of_last:]]
    if waiting:
        yield _distinct(join(waiting), features_of)


def _distinct(events: CodedEvents, features_of: Callable[[Rows], Features | None]) -> CodedEvents:
    """Return the first of each group of equal events, in order."""
    ends = np.stack([events.src, events.dst], axis=1).view(np.int32)
    columns: list[npt.NDArray[Any]] = [
        events.time.view(np.int64)[:, None],
        ends.view(np.int64),
        events.label.view(np.int32)[:, None],
    ]
    features = features_of(events.feature_row)
    if features is not None:
        # 0 and -0 are one value
        columns.append((features + np.float32(0)).view(np.int32))
    wide = np.concatenate([column.astype(np.int64) for column in columns], axis=1)
    _, first = np.unique(wide, axis=0, return_index=True)
    return events[np.sort(first)]
