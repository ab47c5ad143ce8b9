"""Golden scores of EdgeBank, which learns nothing: one batch of events and their negatives, in four modes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.reference.golden_checks import Check, difference
from tests.reference.golden_file import Array, open_golden
from tests.support.event_logs import write_log
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView

_LINKS = {"positive": "query", "negative": "negative"}
"""What the keys of scores and of ends begin with."""
_ENDS = tuple(f"{ends}_{end}" for ends in _LINKS.values() for end in ("src", "dst"))
_WANTED = ("src", "dst", "time", "history", "time_window_proportion", *_ENDS)
_MODES = ("unlimited", "window_fixed_proportion", "window_repeat_interval", "repeat_threshold")
SCORES = tuple(f"{kind}/{mode}" for kind in _LINKS for mode in _MODES)


def is_edge_bank(path: Path) -> bool:
    with open_golden(path) as stored:
        return bool(set(SCORES) & set(stored.files))


class EdgeBankFile:
    """Read whole. Scores are of links after the first `history` events."""

    def __init__(self, path: Path) -> None:
        with open_golden(path) as stored:
            self.arrays: dict[str, Array] = {name: stored[name] for name in stored.files}
        if missing := [name for name in _WANTED if name not in self.arrays]:
            raise InputError(f"{path} lacks {', '.join(missing)}; record it with all keys of the layout")
        history, num_events = int(self["history"]), len(self["src"])
        if not 0 < history <= num_events:
            raise InputError(f"{path}: history is {history}, of {num_events} events; record it again")

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def write_folder(self, folder: Path) -> EventLog:
        ends = [self[name] for name in ("src", "dst", *_ENDS)]
        num_nodes = int(max(each.max(initial=0) for each in ends)) + 1
        return write_log(folder, self["src"], self["dst"], self["time"], num_nodes=num_nodes)

    def checks(self) -> list[Check]:
        def found(key: str) -> Callable[[Any], Array]:
            return lambda rank: rank[key]

        return [
            Check(
                quantity=key.replace("_", " "),
                key=key,
                shape=self[key].shape,
                unit="link",
                found=found(key),
                deviation=difference,
                measure="as it is",
                tolerance=0,
            )
            for key in SCORES
            if key in self.arrays
        ]


def edge_bank_on_rank(world: World, path: Path, folder: Path) -> dict[str, Array]:
    """This rank's share of the scores."""
    golden, log = EdgeBankFile(path), EventLog(folder)
    bank = EdgeBank.of(EventView(log, 0, len(log)))
    modes: dict[str, Callable[..., Array]] = {
        "unlimited": bank.unlimited,
        "window_fixed_proportion": partial(bank.time_window, share=float(golden["time_window_proportion"])),
        "window_repeat_interval": bank.repeat_interval,
        "repeat_threshold": bank.repeat_threshold,
    }
    scores: dict[str, Array] = {}
    for kind, ends in _LINKS.items():
        links = [
            np.array_split(golden[f"{ends}_{end}"].astype(np.int32), world.num_ranks)[world.rank]
            for end in ("src", "dst")
        ]
        scores |= {
            f"{kind}/{mode}": score(*links, before_event=int(golden["history"]))
            for mode, score in modes.items()
        }
    return scores
