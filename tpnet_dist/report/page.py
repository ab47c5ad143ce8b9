"""The whole page: one file that needs no other, no script and no network."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from tpnet_dist.files.atomic_write import whole_file
from tpnet_dist.report.comparison import comparison
from tpnet_dist.report.headline import lead, notices, tiles
from tpnet_dist.report.markup import deeper, tag, text
from tpnet_dist.report.run import Run, read_run
from tpnet_dist.report.sections import (
    costs_section,
    data_section,
    results_section,
    settings_section,
    training_section,
)
from tpnet_dist.report.series import series_of

# browsers hold the page to its word: nothing is fetched, nothing runs
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Runs of the same name are told apart by their paths."""
    runs = [read_run(folder) for folder in folders]
    names = Counter(run.name for run in runs)
    return [
        run if names[run.name] == 1 else replace(run, name=str(folder))
        for run, folder in zip(runs, folders, strict=True)
    ]


def write_page(folders: Sequence[Path], out: Path) -> Path:
    """A page about the runs in these folders; one that is there is replaced."""
    whole = page(read_runs(folders), datetime.now().astimezone())
    with whole_file(out) as file:
        file.write(whole.encode())
    return out


def page(runs: Sequence[Run], now: datetime) -> str:
    [*titles] = dict.fromkeys(run.title for run in runs)
    title = f"{', '.join(titles)}: {runs[0].name if len(runs) == 1 else f'{len(runs)} runs'}"
    body = _one(runs[0]) if len(runs) == 1 else _several(runs, titles)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            _head(title),
            tag(
                "body",
                tag("a", "To the content", class_="skip", href="#content"),
                body,
                _footer(now),
            ),
            "</html>",
            "",
        ]
    )


def _one(run: Run) -> str:
    head = tag("p", f"Run {text(run.name)}", class_="over") + tag("h1", text(run.title)) + lead(run)
    return tag("header", head) + tag("main", notices(run), tiles(run), _sections(run), id="content")


def _several(runs: Sequence[Run], titles: Sequence[str]) -> str:
    links = "".join(
        tag("li", tag("a", text(run.name), href=f"#run-{place}")) for place, run in enumerate(runs, start=1)
    )
    nav = tag(
        "nav", tag("ul", tag("li", tag("a", "Comparison", href="#comparison")), links), aria_label="Runs"
    )
    head = tag("p", f"{len(runs)} runs", class_="over") + tag("h1", text(", ".join(titles))) + nav
    keys = {run.recognition.dataset.key if run.recognition else None for run in runs}
    compared = comparison(series_of(runs), keys.pop() if len(keys) == 1 else None)
    details = "".join(
        tag(
            "article",
            tag("h2", text(run.name), id=f"run-{place}"),
            lead(run),
            notices(run),
            tiles(run),
            deeper(_sections(run)),
            class_="run",
        )
        for place, run in enumerate(runs, start=1)
    )
    return tag("header", head) + tag("main", compared, details, id="content")


def _sections(run: Run) -> str:
    return "".join(
        section(run)
        for section in (results_section, training_section, costs_section, data_section, settings_section)
    )


def _head(title: str) -> str:
    style = (files("tpnet_dist.report") / "style.css").read_text(encoding="utf-8")
    return (
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>\n{style}</style></head>"
    )


def _footer(now: datetime) -> str:
    try:
        release = f" {version('tpnet-dist')}"
    except PackageNotFoundError:
        release = ""
    words = f"Made by tpnet_dist{release} on {now:%Y-%m-%d at %H:%M %Z} from the files of the run"
    return tag("footer", tag("p", f"{text(words)}; this page fetches nothing and runs no script."))
