"""Data folders of a study: which of the paper's datasets each is, and how it differs from the paper's."""

from dataclasses import dataclass
from pathlib import Path

from tpnet_dist.config.paper_values import paper_dataset, paper_datasets
from tpnet_dist.config.schema import default_width
from tpnet_dist.config.toml_files import preset_names
from tpnet_dist.config.train_args import BUILTIN_PRESET
from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import MANIFEST_NAME, Manifest, read_manifest


@dataclass(frozen=True)
class StudyLog:
    """A data folder and the preset that suits it."""

    preset: str
    folder: Path

    def train_events(self, share: float) -> int:
        """Return the most training events there may be; events of nodes that are kept out are among them."""
        return round(read_manifest(self.folder).events * share)


def find_logs(places: tuple[str, ...]) -> list[StudyLog]:
    """Find logs: `DIR`, a data folder or a folder of some; or `PRESET=DIR` for one with another name."""
    logs = [log for place in places for log in _logs_at(place)]
    for number, log in enumerate(logs):
        for other in logs[:number]:
            if other.preset == log.preset:
                raise InputError(
                    f"--data {log.folder}: {other.folder} is {log.preset} already; give one of the two"
                )
    return in_paper_order(logs)


def in_paper_order(logs: list[StudyLog]) -> list[StudyLog]:
    return sorted(logs, key=lambda log: dataset_order(log.preset))


def dataset_order(dataset: str) -> tuple[int, str]:
    """Return a key that puts the paper's datasets first, as they stand there."""
    known = paper_datasets()
    return known.index(dataset) if dataset in known else len(known), dataset


def builtin() -> StudyLog:
    from tpnet_dist.train import builtin_log

    return StudyLog(BUILTIN_PRESET, builtin_log())


def dataset_of(folder: Path) -> str:
    """Return the preset its name means, else its name."""
    return _preset_named(folder.name) or folder.name


def title_of(dataset: str) -> str:
    """Return the dataset's name as the paper spells it."""
    known = paper_dataset(dataset)
    return known.name if known else dataset


def width_there(folder: Path) -> int | None:
    """Return the width by the paper's rule; None if the log is not there any more."""
    manifest = _manifest(folder)
    return default_width(manifest.events, manifest.nodes) if manifest else None


def differences(dataset: str, folder: Path) -> str:
    """Return how the log differs from the paper's; empty if no difference is known."""
    known, manifest = paper_dataset(dataset), _manifest(folder)
    if known is None or manifest is None:
        return ""
    width = manifest.edge_features.width if manifest.edge_features else 0
    counts = {
        "events": (manifest.events, known.num_events),
        "nodes": (manifest.nodes, known.num_nodes),
        "edge features": (width, known.edge_features),
    }
    return ", ".join(
        f"{_number(ours)} {name} (the paper: {_number(theirs)})"
        for name, (ours, theirs) in counts.items()
        if ours != theirs
    )


def _number(count: int) -> str:
    return f"{count:,}" if count else "no"


def _manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except (InputError, OSError):
        return None


def _logs_at(place: str) -> list[StudyLog]:
    name, equals, rest = place.partition("=")
    if equals and name in preset_names():
        return [_checked(StudyLog(name, Path(rest)))]
    folder = Path(place)
    if (folder / MANIFEST_NAME).exists() or not folder.is_dir():
        return [_checked(_recognised(folder))]
    within = sorted(path.parent for path in folder.glob(f"*/{MANIFEST_NAME}"))
    logs = [StudyLog(preset, path) for path in within if (preset := _preset_named(path.name))]
    if not logs:
        raise InputError(
            f"--data {folder}: holds no data folder named like a preset ({', '.join(preset_names())}); "
            "rename one, or write --data PRESET=DIR"
        )
    return [_checked(log) for log in logs]


def _recognised(folder: Path) -> StudyLog:
    preset = _preset_named(folder.resolve().name)
    if preset is None:
        raise InputError(
            f"--data {folder}: is named like no preset ({', '.join(preset_names())}); "
            f"write --data PRESET={folder}"
        )
    return StudyLog(preset, folder)


def _checked(log: StudyLog) -> StudyLog:
    read_manifest(log.folder)
    return log


def _preset_named(name: str) -> str | None:
    if (known := paper_dataset(name)) is not None:
        return known.key
    return name if name in preset_names() else None
