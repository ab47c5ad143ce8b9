"""`python -m data_prep describe`: its flags."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from tyro.conf import Positional

from data_prep.describe_view import print_summary
from data_prep.measure import events_to_read, measure
from data_prep.progress import progress_display
from tpnet_dist.events import EventLog


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
        with progress_display() as display:
            if self.verify:
                stage = display.stage("verifying", len(log.manifest.files()))
                for number, _ in enumerate(log.verify(), start=1):
                    stage.move_to(number)
            summary = measure(log, display.stage("measuring", events_to_read(log)).advance)
        if self.json:
            print(json.dumps({"folder": str(self.folder), "verified": self.verify, **summary.to_json()}))
            return
        console = Console()
        print_summary(summary, console)
        if self.verify:
            console.print(f"all {len(log.manifest.files())} files match their sha256")
