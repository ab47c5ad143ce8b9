"""The whole page: one file that needs no other, no script and no network."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from tpnet_dist.evaluation.results import release
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.report.blocks import Section, Tile
from tpnet_dist.report.comparison import comparison
from tpnet_dist.report.glossary import glossary
from tpnet_dist.report.headline import lead, notices, tiles
from tpnet_dist.report.run import Run, read_run
from tpnet_dist.report.sections import sections
from tpnet_dist.report.series import series_of


@dataclass(frozen=True)
class ShownRun:
    """The page's contents on one run."""

    name: str
    lead: str
    notices: Sequence[str]
    tiles: Sequence[Tile]
    sections: Sequence[Section]


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read the runs; those of the same name are distinguished by their paths, and models by their titles."""
    runs = [read_run(folder) for folder in folders]
    names = Counter(run.name for run in runs)
    named = [
        run if names[run.name] == 1 else replace(run, name=str(folder))
        for run, folder in zip(runs, folders, strict=True)
    ]
    return named if len({run.config.model.name for run in runs}) == 1 else list(map(_with_model, named))


def _with_model(run: Run) -> Run:
    title = run.config.model.title
    return run if title.lower() in run.name.lower() else replace(run, name=f"{run.name} ({title})")


def write_page(folders: Sequence[Path], out: Path) -> Path:
    """Write a page about the runs in these folders; one that is there is replaced."""
    whole = page(read_runs(folders), datetime.now().astimezone())
    with atomic_write(out) as file:
        file.write(whole.encode())
    return out


def page(runs: Sequence[Run], now: datetime) -> str:
    """Render the page. What comes from files is text wherever it stands: the templates escape it."""
    heading = ", ".join(dict.fromkeys(run.title for run in runs))
    templates = Environment(
        loader=PackageLoader("tpnet_dist.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template("page.html").render(
        title=f"{heading}: {runs[0].name if len(runs) == 1 else f'{len(runs)} runs'}",
        heading=heading,
        comparison=_comparison(runs) if len(runs) > 1 else None,
        runs=[ShownRun(run.name, lead(run), notices(run), tiles(run), sections(run)) for run in runs],
        glossary=glossary(),
        release=release(),
        made=f"{now:%Y-%m-%d at %H:%M %Z}",
    )


def _comparison(runs: Sequence[Run]) -> Section:
    """Compare the runs, beside the paper's figures if all were trained on the same of its datasets."""
    keys = {run.recognition.dataset.key if run.recognition else None for run in runs}
    return comparison(series_of(runs), keys.pop() if len(keys) == 1 else None)
