"""`python -m data_prep describe`: its flags."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from tyro.conf import Positional

from data_prep.describe_view import print_summary
from data_prep.measure import events_to_read, measure
from tpnet_dist.events import EventLog
from tpnet_dist.files.progress import display_for


@dataclass(kw_only=True)
class Describe:
    """Say what a data folder holds.

    Example: python -m data_prep describe data/mine --verify
    """

    folder: Positional[Path]
    """The data folder."""
    verify: bool = False
    """Hash every file again and compare with the manifest."""
    json: bool = False
    """Print one JSON object instead of tables."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        log = EventLog(self.folder)
        display = display_for(rank=0)
        if self.verify:
            with display.stage("verifying", len(log.manifest.files()), unit="files"):
                for _ in log.verify():
                    display.advance(1)
        with display.stage("measuring", events_to_read(log)):
            summary = measure(log, display.advance)
        if self.json:
            print(json.dumps({"folder": str(self.folder), "verified": self.verify, **summary.to_json()}))
            return
        console = Console()
        print_summary(summary, console)
        if self.verify:
            console.print(f"all {len(log.manifest.files())} files match their sha256")
