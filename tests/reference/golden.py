"""Compare this project with golden numbers of the published implementation.

    python -m tests.reference.golden FILE.npz [--ranks N]

Takes any file of the layout: other logs, widths, hops and decays, with or without features; only what the
checks name is read. On N gloo ranks the real memory records the first `warm_batches` batches; then the real
trainer does so from a data folder with these events, scores the query batch with the published weights, and
takes the training steps. Every quantity is put together from the ranks' shares. A file that stops at the
memory, with neither weights nor anything computed with them, is compared as far as it goes. Files of models
without a memory and of EdgeBank are known by their keys. Where training losses are too far, rounding alone is
measured too.

Prints the largest deviation of each quantity; exits with 1 if one is above its tolerance, with 2 if the file
cannot be used.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from benchmarks.rank_pool import RankPool, world_of_one
from tests.reference.golden_baseline import BaselineFile, baseline_on_rank, is_baseline
from tests.reference.golden_checks import Check, GoldenRank, checks_of
from tests.reference.golden_edge_bank import SCORES, EdgeBankFile, edge_bank_on_rank, is_edge_bank
from tests.reference.golden_file import Array, GoldenFile
from tests.reference.golden_model import LOGITS, QUANTITIES, GoldenModel, has_model
from tests.reference.golden_rank import WarmRank
from tests.reference.golden_rounding import NUM_TRIALS, losses_moved
from tests.reference.golden_trainer import TrainerRank
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError, errors_for_people

Found = TypeVar("Found")

PROGRAM = "python -m tests.reference.golden"
ABOVE_TOLERANCE = 1


# ---- the comparison ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """The outcome of one check."""

    check: Check
    deviation: float
    place: int

    @property
    def holds(self) -> bool:
        return self.deviation <= self.check.tolerance  # which NaN is not


def found_on_rank(world: World, path: Path, folder: Path) -> dict[str, Array]:
    """This rank's share of every quantity; `folder` is for the trainer, if the file has a model."""
    golden, model = read_golden(path)
    warm = WarmRank(golden, world.new_exchange())
    rank = GoldenRank(warm, TrainerRank(model, folder, world) if model else None)
    return {check.key: check.found(rank) for check in checks_of(golden, model)}


def read_golden(path: Path) -> tuple[GoldenFile, GoldenModel | None]:
    golden = GoldenFile(path)
    return golden, GoldenModel(golden) if has_model(golden) else None


def compare(path: Path, pool: RankPool | None) -> list[Comparison]:
    """On the ranks of the pool, or without one in this process. What is refused is refused here."""
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder = Path(name)
        if is_edge_bank(path):
            bank = EdgeBankFile(path)
            checks = bank.checks()
            wanted = [bank[check.key] for check in checks]
            bank.write_folder(folder)
            shares = found_by_ranks(edge_bank_on_rank, path, folder, pool)
        elif is_baseline(path):
            baseline = BaselineFile(path)
            checks = baseline.checks()
            wanted = [baseline[check.key] for check in checks]
            baseline.check_weights(baseline.write_folder(folder))
            shares = found_by_ranks(baseline_on_rank, path, folder, pool)
        else:
            golden, model = read_golden(path)
            checks = checks_of(golden, model)
            wanted = [golden.read(check.key, check.shape) for check in checks]
            if model is not None:
                model.check_weights(model.write_folder(folder))
            shares = found_by_ranks(found_on_rank, path, folder, pool)
    outcomes = []
    for check, published in zip(checks, wanted, strict=True):
        deviations = check.deviation(np.concatenate([share[check.key] for share in shares]), published)
        place = int(np.argmax(deviations)) if len(deviations) else 0  # a NaN counts as the largest
        outcomes.append(Comparison(check, float(deviations[place]) if len(deviations) else 0.0, place))
    return outcomes


def rounding_of_losses(path: Path, pool: RankPool | None) -> str:
    """What rounding alone does to the training losses of a file, in a sentence."""
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder = Path(name)
        BaselineFile(path).write_folder(folder)
        moved, *_ = found_by_ranks(losses_moved, path, folder, pool)
    return (
        f"Rounding alone, gradients off by as much as the file's first ones differ from ours, moves the "
        f"losses of {NUM_TRIALS} more trainings by up to {', '.join(f'{each:.1e}' for each in moved)}."
    )


def found_by_ranks(
    find: Callable[[World, Path, Path], Found], path: Path, folder: Path, pool: RankPool | None
) -> list[Found]:
    if pool is not None:
        return pool.run(find, path, folder)
    with world_of_one() as world:
        return [find(world, path, folder)]


# ---- the command -------------------------------------------------------------------------------------------


def print_comparisons(comparisons: list[Comparison], title: str) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("quantity", "largest", "measured as", "at", "allowed", ""):
        table.add_column(heading, justify="right" if heading in ("largest", "allowed") else "left")
    for outcome in comparisons:
        check = outcome.check
        table.add_row(
            check.quantity,
            f"{outcome.deviation:.1e}" if check.tolerance else f"{outcome.deviation:.0f}",
            check.measure,
            f"{check.unit} {outcome.place}" if outcome.deviation != 0 else "",
            f"{check.tolerance:.0e}" if check.tolerance else "0",
            "ok" if outcome.holds else "[bold red]too far",
        )
    Console().print(table)


def run(file: Positional[Path], *, ranks: int = 1, debug: bool = False) -> int:
    """Compare this project with golden numbers of the published implementation.

    Args:
        file: The golden numbers, an npz file.
        ranks: On how many gloo ranks.
        debug: Show the traceback of an error.
    """
    with errors_for_people(PROGRAM, debug=debug):
        if ranks < 1:
            raise InputError(f"--ranks is {ranks}, but at least 1 is needed; raise it")
        pool = RankPool(ranks) if ranks > 1 else None
        try:
            comparisons = compare(file, pool)
            is_far = any(one.check.key == "train_losses" and not one.holds for one in comparisons)
            rounding = rounding_of_losses(file, pool) if is_far and is_baseline(file) else None
        finally:
            if pool is not None:
                pool.close()
    print_comparisons(comparisons, f"{file.name} on {ranks} rank{'s' * (ranks > 1)}: largest deviations")
    if rounding is not None:
        print(rounding)
    if not any(outcome.check.key in (*QUANTITIES, *LOGITS, *SCORES) for outcome in comparisons):
        print(f"{file.name} has no weights and nothing computed with them: the model was not compared")
    return 0 if all(outcome.holds for outcome in comparisons) else ABOVE_TOLERANCE


def main(args: list[str] | None = None) -> None:
    sys.exit(tyro.cli(run, prog=PROGRAM, args=args))


if __name__ == "__main__":
    main()
