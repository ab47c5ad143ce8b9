"""`python -m data_prep synth`: its flags."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from data_prep.closing_line import say_done
from data_prep.synth import make_log, write_csv
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.events.shards import EVENTS_PER_SHARD
from tpnet_dist.files.progress import display_for


@dataclass(kw_only=True)
class Synth:
    """Make a synthetic event log.

    Example: python -m data_prep synth data/social --kind social --events 1e5
    """

    out: Positional[Path]
    """The data folder to make; with --as-csv, the CSV file."""
    events: Count
    """The number of events, such as 1e6."""
    kind: Literal["social", "random"] = "social"
    """social: communities, repeated partners, recency, hubs, newcomers, drift; random: uniform pairs, as in
    the paper's scalability study."""
    average_degree: float | None = None
    """Events per node, counting both ends; by default 60 for social, 100 for random."""
    seed: int = 0
    """The seed; the same seed makes the same log."""
    shard_events: Count = EVENTS_PER_SHARD
    """Events per Parquet shard."""
    as_csv: bool = False
    """Write a raw CSV file instead of a data folder."""
    overwrite: bool = False
    """Replace an existing data folder or CSV file."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        started, display = time.monotonic(), display_for(rank=0)
        asked: dict[str, Any] = {
            "kind": self.kind,
            "events": self.events,
            "average_degree": self.average_degree,
            "seed": self.seed,
            "overwrite": self.overwrite,
            "progress": display.advance,
        }
        if self.as_csv:
            with display.stage("writing", self.events):
                write_csv(self.out, **asked)
            print(f"{self.out}: {self.events:,} events as CSV")
        else:
            with display.stage("writing", self.events):
                manifest = make_log(self.out, **asked, shard_events=self.shard_events)
            say_done(manifest, self.out, time.monotonic() - started)
