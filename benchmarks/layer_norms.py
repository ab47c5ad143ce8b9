"""How large the memory's layers are: the mean norm of rows by layer, beside the paper's. Nothing is trained.

    python -m benchmarks.layer_norms --data data             # all of the paper's datasets that are in data/
    python -m benchmarks.layer_norms --data data/uci --decays 1e-7 1e-6 1e-5 1e-4

Events are recorded with the preset's λ, or with each of --decays. After the training part and after all
events, rows of the nodes that took part so far are read at the time of the last event; the paper does not say
when it looks. That layers differ by orders of magnitude is why products of rows go through a logarithm.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.console import Console
from torch import Tensor
from tyro.conf import FlagCreatePairsOff, arg

from benchmarks.rank_pool import world_of_one
from benchmarks.results_line import print_results_line
from benchmarks.sheet import Sheet
from benchmarks.study_logs import StudyLog, builtin, find_logs, title_of
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import plan_of, split_of, with_timescales
from tpnet_dist.config.schema import Config, decay_text
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.errors import errors_for_people
from tpnet_dist.evaluation.model_parts import build_memory
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.memory.memory import Memory

PROGRAM = "python -m benchmarks.layer_norms"
NODES_AT_ONCE = 1 << 14
PAPER = {
    "wikipedia": (1.16e1, 1.23e3, 2.06e5),
    "reddit": (4.28e1, 2.52e5, 2.54e9),
    "mooc": (5.70e0, 2.50e3, 1.52e6),
    "lastfm": (9.64e1, 1.81e4, 4.78e6),
    "enron": (2.73e-1, 1.50e0, 4.60e-2),
    "social_evo": (2.81e3, 7.30e6, 1.56e10),
    "uci": (1.88e1, 8.67e2, 6.27e4),
    "flights": (3.38e1, 8.12e3, 3.29e6),
    "can_parl": (8.36e0, 7.49e2, 1.40e4),
    "us_legis": (4.39e1, 2.75e3, 1.22e5),
    "un_trade": (1.67e2, 1.58e4, 1.04e6),
    "un_vote": (2.41e2, 3.36e4, 3.22e6),
    "contact": (9.88e0, 8.83e2, 9.36e4),
}
"""Layers 1, 2 and 3 in the paper's table."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which logs."""

    data: Annotated[tuple[str, ...], arg(metavar="DIR …")] = ()
    """Data folders named like presets, or folders of such; PRESET=DIR for one with another name."""
    decays: tuple[float, ...] = ()
    """λ to record with, per second; by default the preset's."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(frozen=True)
class Norms:
    """Norms of one log with one λ."""

    log: str
    decay: str
    after: str
    """Which events."""
    nodes: int
    """The number of nodes in these events."""
    layers: tuple[float, ...]
    """Mean norm of each layer from 0 on."""
    paper: tuple[float, ...] | None
    """The paper's norms of each layer from 1 on, with the preset's λ."""


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        logs = find_logs(settings.data) if settings.data else [builtin()]
        found = [norms for log in logs for norms in norms_of(log, settings.decays)]
    Console(width=150).print(norms_sheet(found).for_terminal())
    print_results_line("layer_norms", {"norms": [asdict(norms) for norms in found]})


def norms_of(log: StudyLog, decays: tuple[float, ...]) -> Iterator[Norms]:
    preset = parse_train([str(log.folder), "--preset", log.preset]).config
    events = EventLog(log.folder)
    parts = {"training": split_of(events, preset.data).train, "all": EventView(events, 0, len(events))}
    for decay in decays or (preset.memory.decay,):
        config = with_timescales(replace(preset, memory=replace(preset.memory, decay=decay)), events)
        paper = PAPER.get(log.preset) if decay == preset.memory.decay else None
        for after, view in parts.items():
            nodes, layers = mean_norms(config, view)
            yield Norms(log.preset, decay_text(config.memory.decay), after, nodes, layers, paper)


def mean_norms(config: Config, view: EventView) -> tuple[int, tuple[float, ...]]:
    """Return how many nodes took part in these events, and the mean norm of each layer of their rows."""
    log = view.log
    with world_of_one() as world:
        memory = build_memory(config, log, world.new_exchange(), world.device, 0, borrowed_rows=0)
        assert memory is not None, "TPNet has a memory"
        memory.reset(0)
        replay(memory, log, view, plan_of(view, config, config.training.batch_size))
        taken = np.zeros(log.num_nodes, np.bool_)
        for chunk in view.stream():
            taken[chunk.columns.src] = taken[chunk.columns.dst] = True
        now = float(log.seconds(view.read(len(view) - 1, len(view)).columns.time)[0])
        nodes = torch.from_numpy(np.flatnonzero(taken))
        total_L = torch.zeros(config.memory.layers, dtype=torch.float64)
        for first in range(0, len(nodes), NODES_AT_ONCE):
            total_L += _norms(memory, nodes[first : first + NODES_AT_ONCE], now)
    return len(nodes), tuple((total_L / len(nodes)).tolist())


def _norms(memory: Memory, nodes_U: Tensor, now: float) -> Tensor:
    """Sum norms by layer, in float64: those of layer 3 reach 1e10."""
    times_U = torch.full((len(nodes_U),), now, dtype=torch.float64)
    rows_ULD = memory.look(nodes_U, products=False).read(nodes_U, times_U)
    total_L: Tensor = torch.linalg.vector_norm(rows_ULD.double(), dim=2).sum(0)
    return total_L


def norms_sheet(found: list[Norms]) -> Sheet:
    most = max(len(one.layers) for one in found)
    lines = [
        (
            *(title_of(one.log), one.decay, one.after, f"{one.nodes:,}"),
            *(f"{norm:.2e}" for norm in one.layers),
            *[""] * (most - len(one.layers)),
            " / ".join(f"{norm:.2e}" for norm in one.paper or ()),
        )
        for one in found
    ]
    layers = (f"layer {layer}" for layer in range(most))
    headings = ("dataset", "λ per second", "after", "nodes", *layers, "the paper, layers 1 / 2 / 3")
    return Sheet("Mean norm of rows by layer", headings, 3, lines)


if __name__ == "__main__":
    main()
