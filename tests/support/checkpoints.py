"""A small model, and the folder in which a run of it keeps its checkpoints."""

from pathlib import Path

from tpnet_dist.distributed.world import World
from tpnet_dist.files.progress import Display
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts
from tpnet_dist.training.engine import DdpEngine


def small_model(edge_width: int = 0) -> TPNet:
    return TPNet(neighbors=3, time_width=4, channels=8, mixer_layers=1, edge_width=edge_width)


class Heard(Display):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def folder_at(
    path: Path, world: World, *, keep: int = 2, log_id: str = "one", display: Display | None = None
) -> CheckpointFolder:
    facts = RunFacts(3, log_id, {"memory.width": None, "training.seeds": (0, 3)})
    return CheckpointFolder(path, keep=keep, run=facts, world=world, display=display)


def engine_of(model: TPNet) -> DdpEngine:
    return DdpEngine(model, learning_rate=1e-3, num_ranks=1)
