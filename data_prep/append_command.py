"""`python -m data_prep append`: its flags."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from data_prep.appending import Appended, Appending, append
from data_prep.places import inputs_and_folder
from tpnet_dist.errors import InputError
from tpnet_dist.files.progress import display_for


@dataclass(kw_only=True)
class Append:
    """Add events to a data folder, after its last one.

    Columns, times, id spaces and features are read as those of the files that were converted: columns are
    matched by name. New nodes come after the others. Files that are there stay as they are, so that runs of
    before go on; describe shows the versions. Without new events nothing changes, and that is said.

    Example: python -m data_prep append today.csv data/mine
    """

    paths: Positional[tuple[str, ...]]
    """The inputs, in time order, then the data folder. An input is a file, a folder, a glob, a URL, or - for
    standard input."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line names the columns; auto: as in the files that were converted."""
    bipartite: bool = False
    """Make sure that the folder has two id spaces."""
    one_id_space: bool = False
    """Make sure that the folder has one."""
    node_features: str | None = None
    """A table with features of new nodes, with the columns of the one that was converted."""
    sort: bool = False
    """Sort the new events by time, among themselves."""
    dry_run: bool = False
    """Say what is understood of the inputs, and write nothing."""
    yes: bool = False
    """Take implausible times and ids as they are, instead of refusing them."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        started = time.monotonic()
        inputs, folder = inputs_and_folder(self.paths, "data folder")
        done = append(self.appending(inputs), Path(folder), display=display_for(rank=0))
        if self.dry_run and done.events:
            print(f"{folder}: nothing is written, because of --dry-run")
        else:
            say_appended(done, folder, time.monotonic() - started)

    def appending(self, inputs: list[str]) -> Appending:
        if self.bipartite and self.one_id_space:
            raise InputError("--bipartite and --one-id-space exclude each other; give one of them")
        said = {"auto": None, "yes": True, "no": False}
        return Appending(
            inputs=tuple(inputs),
            header=said[self.header],
            bipartite=self.bipartite if self.bipartite or self.one_id_space else None,
            sort=self.sort,
            node_features=self.node_features,
            accept_doubts=self.yes,
            dry_run=self.dry_run,
        )


def say_appended(done: Appended, folder: str, seconds: float) -> None:
    manifest = done.manifest
    if not done.events:
        why = "these files were appended last time" if done.is_there else "the input holds no events"
        print(f"{folder}: nothing to append, {why}; it stays at {manifest.events:,} events")
        return
    print(
        f"{folder}: {done.events:,} events and {done.nodes:,} new nodes appended in {seconds:.1f} s, now "
        f"{manifest.events:,} events, {manifest.nodes:,} nodes, version {len(manifest.versions) - 1}"
    )
