"""What is known of the event log a run was trained on, and which of the paper's datasets it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpnet_dist.config.paper_values import PaperDataset, paper_dataset
from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import Manifest, read_manifest


@dataclass(frozen=True)
class EventLogFacts:
    """The log as its folder describes itself, if that is still there."""

    folder: str
    manifest: Manifest | None
    why_unknown: str = ""
    """Why there is no manifest."""
    is_the_runs: bool = True
    """False: the folder now holds another log than the one the run was trained on."""

    @property
    def name(self) -> str:
        return Path(self.folder).name or "the built-in log"


@dataclass(frozen=True)
class Recognition:
    """Which of the paper's datasets a log is, and what speaks for or against it."""

    dataset: PaperDataset
    by: str
    """The property that it was recognised by, for people."""
    doubts: tuple[str, ...]


def read_event_log(folder: str, log_id: str | None) -> EventLogFacts:
    """Read what is known of a log. `log_id`: the id of the log the run was trained on, if the run says so."""
    if not folder:
        return EventLogFacts(folder, None, "the run was trained on the small log that comes with the package")
    try:
        manifest = read_manifest(Path(folder))
    except (InputError, OSError):
        return EventLogFacts(folder, None, f"its data folder {folder} cannot be read from here")
    return EventLogFacts(folder, manifest, is_the_runs=log_id is None or manifest.at(log_id) is not None)


def recognise(log: EventLogFacts) -> Recognition | None:
    """Recognise a dataset by the name of the data folder, else by that of the file it was made from."""
    if not log.folder:
        return None
    inputs = log.manifest.source.get("inputs") if log.manifest else None
    inputs = inputs if isinstance(inputs, list) else []
    names = {f"the name of its data folder, {log.folder}": log.name}
    names |= {f"the file it was made from, {name}": Path(str(name)).name for name in inputs}
    for by, name in names.items():
        dataset = paper_dataset(name)
        if dataset is not None:
            return Recognition(dataset, by, tuple(_doubts(dataset, log)))
    return None


def _doubts(dataset: PaperDataset, log: EventLogFacts) -> list[str]:
    manifest = log.manifest
    if manifest is None:
        return [f"whether it is the paper's {dataset.name} to the event is not known here"]
    theirs: dict[str, Any] = {"events": dataset.num_events, "nodes": dataset.num_nodes}
    doubts = [
        f"it has {getattr(manifest, what):,} {what} where the paper has {count:,}"
        for what, count in theirs.items()
        if getattr(manifest, what) != count
    ]
    width = manifest.edge_features.width if manifest.edge_features else 0
    if width != dataset.edge_features:
        doubts.append(
            f"it has {width or 'no'} edge features where the paper has {dataset.edge_features or 'none'}"
        )
    return doubts
