"""Make synthetic event logs: a data folder, or one raw CSV for those who want to try the conversion."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
import pyarrow as pa

from data_prep import synth_random, synth_social
from data_prep.synth_social import SocialHabits
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventColumns
from tpnet_dist.events.folder import staged_file, staged_folder
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.events.shards import EVENTS_PER_SHARD
from tpnet_dist.events.writer import EventLogWriter

Kind = Literal["random", "social"]
Progress = Callable[[int], None]
"""Told how many events were just written, chunk by chunk."""

AVERAGE_DEGREE: dict[Kind, float] = {
    "random": synth_random.AVERAGE_DEGREE,
    "social": synth_social.AVERAGE_DEGREE,
}
FIRST_TIME = 1_704_067_200
"""2024-01-01 00:00 UTC: Unix seconds, as in real logs."""
RECIPE_VERSION = 1
"""Raise it when a recipe begins to give other events than before."""
_MOST_NODES = 2**31 - 1
_NAME_STEM: dict[Kind, str] = {"random": "node", "social": "user"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything the events of a log depend on."""

    kind: Kind
    events: int
    average_degree: float
    seed: int
    habits: SocialHabits = field(default_factory=SocialHabits)

    def __post_init__(self) -> None:
        if self.events < 1:
            raise InputError(f"events {self.events}: a log has at least one; ask for 1 or more")
        if not (self.average_degree > 0 and math.isfinite(self.average_degree)):
            raise InputError(f"average degree {self.average_degree}: must be a number above 0; try 100")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}: must not be negative; choose 0 or more")
        if self.nodes > _MOST_NODES:
            raise InputError(
                f"{self.events:,} events of average degree {self.average_degree} make {self.nodes:,} nodes, "
                f"more than {_MOST_NODES:,}; ask for fewer events or a higher average degree"
            )

    @property
    def nodes(self) -> int:
        return max(2, round(2 * self.events / self.average_degree))

    @property
    def log_id(self) -> str:
        """An id that is the same for the same events, however they are cut into shards."""
        content = {"version": RECIPE_VERSION, "nodes": self.nodes, **self.parameters()}
        del content["average_degree"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def parameters(self) -> dict[str, Any]:
        parameters = asdict(self)
        if self.kind == "random":
            del parameters["habits"]
        return parameters

    def chunks(self) -> Iterator[EventColumns]:
        size = {"events": self.events, "nodes": self.nodes, "seed": self.seed, "first_time": FIRST_TIME}
        if self.kind == "random":
            return synth_random.random_events(**size)
        return synth_social.social_events(**size, habits=self.habits)


def make_log(
    out_dir: Path,
    *,
    kind: Kind,
    events: int,
    average_degree: float | None = None,
    seed: int = 0,
    shard_events: int = EVENTS_PER_SHARD,
    overwrite: bool = False,
    progress: Progress = lambda num_events: None,
    habits: SocialHabits | None = None,
) -> Manifest:
    """Write a data folder. Node ids are final, so `raw_id` equals the row; some nodes may have no event."""
    recipe = _recipe(kind, events, average_degree, seed, habits)
    if shard_events < 1:
        raise InputError(f"shard size {shard_events}: a shard holds at least one event; ask for 1 or more")
    degree = np.zeros(recipe.nodes, dtype=np.int64)
    with staged_folder(out_dir, overwrite=overwrite) as folder:
        writer = EventLogWriter(
            folder, log_id=recipe.log_id, time_dtype="int64", events_per_shard=shard_events
        )
        for chunk in recipe.chunks():
            writer.append(chunk)
            for end in (chunk.src, chunk.dst):
                degree += np.bincount(end, minlength=recipe.nodes)
            progress(len(chunk))
        node_ids = pa.table({"raw_id": np.arange(recipe.nodes, dtype=np.int64), "degree": degree})
        return writer.finish(node_ids, source={"command": "synth", **recipe.parameters()})


def write_csv(
    path: Path,
    *,
    kind: Kind,
    events: int,
    average_degree: float | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = lambda num_events: None,
    habits: SocialHabits | None = None,
) -> None:
    """Write the events of `make_log` as `source,target,timestamp` lines with names such as user-000123."""
    recipe = _recipe(kind, events, average_degree, seed, habits)
    names = _node_names(recipe)
    with staged_file(path, overwrite=overwrite) as file:
        file.write(b"source,target,timestamp\n")
        for chunk in recipe.chunks():
            source, target = names.gather(chunk.src).alias("source"), names.gather(chunk.dst).alias("target")
            lines = pl.DataFrame([source, target, pl.Series("timestamp", chunk.time)])
            # through a string: a full disk then raises an OSError with its number, which polars drops
            file.write(lines.write_csv(include_header=False).encode())
            progress(len(chunk))


def _recipe(
    kind: Kind, events: int, average_degree: float | None, seed: int, habits: SocialHabits | None
) -> Recipe:
    if kind not in get_args(Kind):
        raise InputError(f"kind {kind!r} is unknown; choose {' or '.join(get_args(Kind))}")
    degree = AVERAGE_DEGREE[kind] if average_degree is None else float(average_degree)
    return Recipe(kind=kind, events=events, average_degree=degree, seed=seed, habits=habits or SocialHabits())


def _node_names(recipe: Recipe) -> pl.Series:
    digits = max(6, len(str(recipe.nodes - 1)))
    number = pl.int_range(recipe.nodes).cast(pl.String).str.zfill(digits)
    return pl.select(pl.format(_NAME_STEM[recipe.kind] + "-{}", number)).to_series()
