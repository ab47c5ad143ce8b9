"""What timescales are worth without the model: a small classifier on inner products of rows.

    python -m benchmarks.timescale_products --data data/uci data/bitcoinotc
    python -m benchmarks.timescale_products --data data/can_parl --batching timestamps

For each choice of λ a memory records the log, and before each batch the inner products of each event's ends
are taken, and those of its source with a random destination: what pair features are made of. An MLP of two
hidden layers learns events from others on the training part. Shown is AP, mean over batches of 200, at the
epoch that is best by validation. A choice takes seconds, where training the model takes hours. Neighbours,
times of interactions and features, which the model sees too, are missing. So figures are lower, and only
compare choices.
"""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from tyro.conf import arg

from benchmarks.results_line import print_results_line
from benchmarks.study_logs import dataset_of
from tpnet_dist.batches.event_batches import batches_to_record
from tpnet_dist.batches.run_data import plan_of, split_of
from tpnet_dist.config.schema import Batching, Config, DataConfig, TrainingConfig, default_width
from tpnet_dist.errors import errors_for_people
from tpnet_dist.evaluation.metrics import LinkScores
from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.timescales import timescales_of
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk
from tpnet_dist.models.tpnet.pair_features import products_within_timescales

HOPS, BATCH_SIZE = 3, 200
HIDDEN, LEARNING_RATE, LINKS_AT_ONCE = 128, 1e-3, 512


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The logs and the choices of λ."""

    data: Annotated[tuple[Path, ...], arg(metavar="DIR …")]
    """Data folders."""
    grid: tuple[float, ...] = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
    """Single λ, per second."""
    batching: Batching = "events"
    seeds: int = 2
    """The number of seeds of the classifier."""
    epochs: int = 4


@dataclass(frozen=True)
class Choice:
    """Timescales, and whether products across them are taken."""

    name: str
    rates: tuple[float, ...]
    crosses: bool = False


@dataclass(frozen=True)
class Products:
    """Inner products of each event, then of its source with another destination, of one part of the log."""

    inputs_B2I: Tensor
    borders: Positions


@dataclass(frozen=True)
class Figure:
    """AP of a choice, mean over seeds."""

    log: str
    choice: str
    rates: tuple[float, ...]
    inputs: int
    val: float
    test: float


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    torch.set_num_threads(1)
    table = Table("log", "choice", "λ per second", "inputs", "validation AP", "test AP")
    figures: list[dict[str, Any]] = []
    with errors_for_people("python -m benchmarks.timescale_products", debug=False):
        for one in measure(settings):
            rates = ", ".join(f"{rate:.2g}" for rate in one.rates)
            print(f"{one.log}, {one.choice}: validation {one.val:.4f}, test {one.test:.4f}", flush=True)
            table.add_row(one.log, one.choice, rates, str(one.inputs), f"{one.val:.4f}", f"{one.test:.4f}")
            figures.append(asdict(one))
    Console(width=120).print(table)
    print_results_line("timescale_products", {"batching": settings.batching, "figures": figures})


def measure(settings: Settings) -> Iterator[Figure]:
    for folder in settings.data:
        log = EventLog(folder)
        for choice in choices(log, settings.grid):
            parts = [*products_of(log, choice, settings.batching)]
            found = [fitted(parts, seed, settings.epochs) for seed in range(settings.seeds)]
            val, test = (statistics.fmean(figures) for figures in zip(*found, strict=True))
            yield Figure(
                dataset_of(folder), choice.name, choice.rates, parts[0].inputs_B2I.shape[2], val, test
            )


def choices(log: EventLog, grid: tuple[float, ...]) -> list[Choice]:
    slow, fast = timescales_of(split_of(log, DataConfig()).train)
    middle = (slow * fast) ** 0.5
    return [
        *(Choice(f"{rate:g}", (rate,)) for rate in grid),
        Choice("the slow one of auto", (slow,)),
        Choice("the fast one of auto", (fast,)),
        Choice("auto", (slow, fast)),
        Choice("auto, products across", (slow, fast), crosses=True),
        Choice("three timescales", (slow, middle, fast)),
    ]


def products_of(log: EventLog, choice: Choice, batching: Batching) -> Iterator[Products]:
    """Yield the products of the training, validation and test part; rows are read at the time of the last
    event before the batch, as in the profile `published`."""
    config = Config(data=DataConfig(batching=batching), training=TrainingConfig(batch_size=BATCH_SIZE))
    split, draw, now = split_of(log, config.data), np.random.default_rng(0), 0.0
    memory = Memory(log.num_nodes, Walk("decay", HOPS, choice.rates), default_width(len(log), log.num_nodes))
    taken_A = products_within_timescales(HOPS, len(choice.rates))
    if choice.crosses:
        taken_A = torch.arange(memory.walk.layers**2)
    for view in (split.train, split.val, split.test):
        destinations = np.unique(np.concatenate([chunk.columns.dst for chunk in view.stream()]))
        plan, parts = plan_of(view, config, BATCH_SIZE), []
        for selected, events in batches_to_record(log, view, plan):
            columns = selected.columns
            ends_BS = torch.from_numpy(
                np.stack([columns.src, columns.dst, draw.choice(destinations, len(columns.src))], 1)
            ).long()
            [rows] = [*memory.run([events], [ends_BS.flatten()], products=False)]
            time_A = torch.full((ends_BS.numel(),), now, dtype=torch.float64)
            rows_ALD = rows.read(ends_BS.flatten(), time_A)
            rows_BSLD = rows_ALD.view(*ends_BS.shape, *rows_ALD.shape[1:])
            parts.append(_inputs(rows_BSLD, taken_A))
            now = float(events.time_B[-1]) if len(events) else now
        yield Products(torch.cat(parts), plan.borders)


def _inputs(rows_BSLD: Tensor, taken_A: Tensor) -> Tensor:
    """Return the products cross, self of the source, self of the destination, for both destinations: (B, 2,
    I)."""
    source_B2LD, target_B2LD = rows_BSLD[:, :1].expand(-1, 2, -1, -1), rows_BSLD[:, 1:]
    products = [
        (one @ other.mT).flatten(2).index_select(2, taken_A)
        for one, other in (
            (source_B2LD, target_B2LD),
            (source_B2LD, source_B2LD),
            (target_B2LD, target_B2LD),
        )
    ]
    return torch.cat(products, 2).relu_().log1p_()


def fitted(parts: list[Products], seed: int, epochs: int) -> tuple[float, float]:
    """Fit a classifier; return AP of validation and test at the epoch that is best by validation."""
    torch.manual_seed(seed)
    train_XI = parts[0].inputs_B2I.flatten(0, 1)
    mean, deviation = train_XI.mean(0), train_XI.std(0) + 1e-3
    model = nn.Sequential(
        *(nn.Linear(train_XI.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN // 2), nn.ReLU()),
        nn.Linear(HIDDEN // 2, 1),
    )
    optimizer, best = torch.optim.Adam(model.parameters(), LEARNING_RATE), (-1.0, -1.0)
    is_event_X = torch.tensor([1.0, 0.0]).repeat(len(train_XI) // 2)
    for _ in range(epochs):
        for some in torch.randperm(len(train_XI)).chunk(-(-len(train_XI) // LINKS_AT_ONCE)):
            logits = model((train_XI[some] - mean) / deviation).squeeze(1)
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(logits, is_event_X[some])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        val, test = (_ap(model, part, mean, deviation) for part in parts[1:])
        best = max(best, (val, test))
    return best


@torch.no_grad()
def _ap(model: nn.Module, part: Products, mean: Tensor, deviation: Tensor) -> float:
    pieces = part.inputs_B2I.chunk(-(-len(part.inputs_B2I) // LINKS_AT_ONCE))
    scores_B2: npt.NDArray[np.float32] = torch.cat(
        [model((piece - mean) / deviation).squeeze(2) for piece in pieces]
    ).numpy()
    return LinkScores(scores_B2[:, 0], scores_B2[:, 1]).metrics(part.borders)["ap"]


if __name__ == "__main__":
    main()
