"""What of a golden file is compared, how this project finds it, and how deviations are measured.

Sums of random features cancel, so a single entry of the memory has no scale of its own. The entries of a row
are compared with the largest entry of that row (of one node and layer, not of the table), the inner product
of two rows with the product of their norms. No scale is below 1e-30, where float32 begins to run out of
digits. What the model makes of them is of the order of 1 and compared as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.reference.golden_file import Array, GoldenFile
from tests.reference.golden_model import EMBEDDINGS, LOGITS, GoldenModel
from tests.reference.golden_rank import WarmRank
from tests.reference.golden_trainer import TrainerRank

SMALLEST_SCALE = 1e-30


# ---- how far off it is -------------------------------------------------------------------------------------


def row_deviation(found: Array, wanted: Array) -> Array:
    """Largest difference along the last dimension, as a part of the largest entry there."""
    difference = np.abs(found.astype(np.float64) - wanted).max(-1, initial=0)
    return difference / np.abs(wanted).max(-1, initial=SMALLEST_SCALE).astype(np.float64)


def product_deviation(found: Array, wanted: Array) -> Array:
    """Largest difference of a pair's inner products, each as a part of the product of the rows' norms."""
    side = round(wanted.shape[-1] ** 0.5)
    wanted = wanted.astype(np.float64).reshape(-1, side, side)
    norms = np.sqrt(np.maximum(np.diagonal(wanted, axis1=1, axis2=2), 0))
    scales = np.maximum(norms[:, :, None] * norms[:, None], SMALLEST_SCALE)
    return (np.abs(found.reshape(wanted.shape) - wanted) / scales).max((1, 2), initial=0)


def difference(found: Array, wanted: Array) -> Array:
    """Largest difference along the dimensions after the first."""
    apart = np.abs(found.astype(np.float64) - wanted)
    return apart.reshape(len(apart), -1).max(1, initial=0)


def count_of_others(found: Array, wanted: Array) -> Array:
    """How many entries along the last dimension are not the same."""
    return (found != wanted).sum(-1)


@dataclass(frozen=True)
class GoldenRank:
    """What one rank finds."""

    warm: WarmRank
    trainer: TrainerRank | None


# ---- the checks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Check:
    """One quantity of the file, and how this project finds it."""

    quantity: str
    key: str
    shape: tuple[int, ...]
    unit: str
    """What the first dimension counts."""
    found: Callable[[GoldenRank], Array]
    """This rank's share along the first dimension."""
    deviation: Callable[[Array, Array], Array]
    measure: str
    tolerance: float


def checks_of(golden: GoldenFile, model: GoldenModel | None) -> list[Check]:
    of_model = [] if model is None else model_checks(model)
    return [*row_checks(golden), *neighbor_checks(golden), product_check(golden), *of_model]


def row_checks(golden: GoldenFile) -> list[Check]:
    def layer_rows(layer: int) -> Callable[[GoldenRank], Array]:
        return lambda rank: rank.warm.rows[:, layer].numpy()

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
    found: dict[str, Callable[[GoldenRank], Array]] = {
        "ids": lambda rank: rank.warm.neighbors.ids_BM.clamp(min=0).numpy(),
        "edge_ids": lambda rank: rank.warm.neighbor_edge_ids(),
        "times": lambda rank: rank.warm.neighbors.times_BM.numpy(),
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
        found=lambda rank: rank.warm.pair_products(),
        deviation=product_deviation,
        measure="of the rows' norms",
        tolerance=1e-4,
    )


def model_checks(model: GoldenModel) -> list[Check]:
    """Embeddings, pair features and logits of the query batch with the initial weights; losses of steps."""
    num_links, channels = model.golden.num_queries, model.sizes.channels
    pair_width = 4 * model.golden.walk.layers**2
    shapes = {
        "pair_features_src_dst": (num_links, pair_width),
        **dict.fromkeys(EMBEDDINGS, (num_links, channels)),
        **dict.fromkeys(LOGITS, (num_links,)),
    }

    def scored(key: str) -> Callable[[GoldenRank], Array]:
        return lambda rank: rank.trainer.scored[key]

    of_queries = [
        Check(
            quantity=key.replace("_", " "),
            key=key,
            shape=shape,
            unit="link",
            found=scored(key),
            deviation=difference,
            measure="as it is",
            tolerance=1e-5,
        )
        for key, shape in shapes.items()
    ]
    of_steps = Check(
        quantity="training losses",
        key="train_losses",
        shape=(model.num_steps,),
        unit="step",
        found=lambda rank: rank.trainer.share_of_losses(),
        deviation=difference,
        measure="as it is",
        tolerance=1e-4,
    )
    return [*of_queries, of_steps]
