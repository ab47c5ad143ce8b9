"""Figures of a seed's best weights, on a memory of their own epoch, with all negatives asked for."""

from tpnet_dist.batches.event_batches import replay, until_stop_requested
from tpnet_dist.evaluation.protocols import Evaluator
from tpnet_dist.evaluation.results import Figures
from tpnet_dist.events.split import PartName
from tpnet_dist.files.progress import Display
from tpnet_dist.training.checkpoint import CheckpointFolder

PARTS: tuple[PartName, ...] = ("val", "test")


def evaluate_best(
    evaluator: Evaluator, checkpoints: CheckpointFolder, display: Display
) -> dict[str, Figures]:
    """Return the figures of the best epoch by part. Checkpoints hold no memory, so training events are
    recorded anew."""
    epoch = checkpoints.load_best(evaluator.scorer.parts.model)
    return evaluate_parts(evaluator, epoch, f"best epoch {epoch + 1}", display)


def evaluate_parts(evaluator: Evaluator, epoch: int, what: str, display: Display) -> dict[str, Figures]:
    """Return the figures of the weights as they are, by part; rows start from the random features of
    `epoch`."""
    scorer = evaluator.scorer
    config, data, parts = scorer.config.evaluation, scorer.data, scorer.parts
    if parts.memory is not None:
        parts.memory.reset(epoch)
        look = until_stop_requested(data.world)
        replay(parts.memory, data.log, data.split.train, data.train_plan, progress=look)
    figures: dict[str, Figures] = {}
    for name in PARTS:
        display.say(f"{what}: evaluating the {name} part, {len(data.part(name)):,} events")
        figures[name] = evaluator.evaluate(name, kinds=config.negatives, mrr_negatives=config.mrr_negatives)
    return figures
