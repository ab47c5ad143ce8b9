"""Compare this project with golden numbers of the published implementation.

    python -m tests.reference.golden FILE.npz [--ranks N]

Takes any file of the layout: other logs, widths, hops and decays, with or without features; only what the
checks name is read. The real memory records the first `warm_batches` batches, on N gloo ranks if N > 1, and
every quantity is put together from the ranks' shares. Prints the largest deviation of each; exits with 1 if
one is above its tolerance, with 2 if the file cannot be used.

How deviations are measured: sums of random features cancel, so a single entry has no scale of its own. The
entries of a row are compared with the largest entry of that row (of one node and layer, not of the table),
the inner product of two rows with the product of their norms. No scale is below 1e-30, where float32 begins
to run out of digits.

Shape letters: B pairs, P layers of a pair's two rows.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from tests.rank_pool import RankPool
from tests.reference.golden_file import Array, GoldenFile
from tests.reference.golden_rank import WarmRank
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.ranks.exchange import Exchange, LocalExchange
from tpnet_dist.ranks.world import World

PROGRAM = "python -m tests.reference.golden"
ABOVE_TOLERANCE = 1
SMALLEST_SCALE = 1e-30


# ---- how far off it is -------------------------------------------------------------------------------------


def row_deviation(found: Array, wanted: Array) -> Array:
    """Largest difference along the last dimension, as a part of the largest entry there."""
    difference = np.abs(found.astype(np.float64) - wanted).max(-1, initial=0)
    return difference / np.abs(wanted).max(-1, initial=SMALLEST_SCALE).astype(np.float64)


def product_deviation(found: Array, wanted: Array) -> Array:
    """Largest difference of a pair's inner products, each as a part of the product of the rows' norms."""
    side = round(wanted.shape[-1] ** 0.5)
    wanted_BPP = wanted.astype(np.float64).reshape(-1, side, side)
    norm_BP = np.sqrt(np.maximum(np.diagonal(wanted_BPP, axis1=1, axis2=2), 0))
    scale_BPP = np.maximum(norm_BP[:, :, None] * norm_BP[:, None], SMALLEST_SCALE)
    return (np.abs(found.reshape(wanted_BPP.shape) - wanted_BPP) / scale_BPP).max((1, 2), initial=0)


def count_of_others(found: Array, wanted: Array) -> Array:
    """How many entries along the last dimension are not the same."""
    return (found != wanted).sum(-1)


# ---- the checks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Check:
    """One quantity of the file, and how this project finds it."""

    quantity: str
    key: str
    shape: tuple[int, ...]
    unit: str
    """What the first dimension counts."""
    found: Callable[[WarmRank], Array]
    """This rank's share along the first dimension."""
    deviation: Callable[[Array, Array], Array]
    measure: str
    tolerance: float


def checks_of(golden: GoldenFile) -> list[Check]:
    return [*row_checks(golden), *neighbor_checks(golden), product_check(golden)]


def row_checks(golden: GoldenFile) -> list[Check]:
    def layer_rows(layer: int) -> Callable[[WarmRank], Array]:
        return lambda rank: rank.rows[:, layer].numpy()

    return [
        Check(
            quantity=f"rows, layer {layer}",
            key=f"memory_after_warm_layer{layer}",
            shape=golden["H0"].shape,
            unit="node",
            found=layer_rows(layer),
            deviation=row_deviation,
            measure="of the row's largest",
            tolerance=1e-5,
        )
        for layer in range(1, golden.walk.layers)
    ]


def neighbor_checks(golden: GoldenFile) -> list[Check]:
    shape = (3 * golden.num_queries, int(golden["num_neighbors"]))
    found: dict[str, Callable[[WarmRank], Array]] = {
        "ids": lambda rank: rank.neighbors.ids_padded_with(0).numpy(),
        "edge_ids": WarmRank.neighbor_edge_ids,
        "times": lambda rank: rank.neighbors.times_BM.numpy(),
    }
    return [
        Check(
            quantity=f"neighbours, {name.replace('_', ' ')}",
            key=f"neighbor_{name}",
            shape=shape,
            unit="query",
            found=found[name],
            deviation=count_of_others,
            measure="entries that differ",
            tolerance=0,
        )
        for name in found
    ]


def product_check(golden: GoldenFile) -> Check:
    return Check(
        quantity="pair inner products",
        key="raw_pair_features_src_dst",
        shape=(golden.num_queries, (2 * golden.walk.layers) ** 2),
        unit="pair",
        found=WarmRank.pair_products,
        deviation=product_deviation,
        measure="of the rows' norms",
        tolerance=1e-4,
    )


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


def found_by(exchange: Exchange, path: Path) -> dict[str, Array]:
    """This rank's share of every quantity."""
    golden = GoldenFile(path)
    rank = WarmRank(golden, exchange)
    return {check.key: check.found(rank) for check in checks_of(golden)}


def found_on_rank(world: World, path: Path) -> dict[str, Array]:
    return found_by(world.new_exchange(), path)


def compare(path: Path, pool: RankPool | None) -> list[Comparison]:
    """On the ranks of the pool, or without one in this process."""
    golden = GoldenFile(path)
    checks = checks_of(golden)
    wanted = [golden.read(check.key, check.shape) for check in checks]
    shares = [found_by(LocalExchange(), path)] if pool is None else pool.run(found_on_rank, path)
    outcomes = []
    for check, published in zip(checks, wanted, strict=True):
        deviations = check.deviation(np.concatenate([share[check.key] for share in shares]), published)
        place = int(np.argmax(deviations)) if len(deviations) else 0  # a NaN counts as the largest
        outcomes.append(Comparison(check, float(deviations[place]) if len(deviations) else 0.0, place))
    return outcomes


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
        finally:
            if pool is not None:
                pool.close()
    print_comparisons(comparisons, f"{file.name} on {ranks} rank{'s' * (ranks > 1)}: largest deviations")
    return 0 if all(outcome.holds for outcome in comparisons) else ABOVE_TOLERANCE


def main(words: list[str] | None = None) -> None:
    sys.exit(tyro.cli(run, prog=PROGRAM, args=words))


if __name__ == "__main__":
    main()
