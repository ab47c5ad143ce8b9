"""A real browser without a window, for tests of pages; they are skipped where there is none, or fail if
`$TPNET_REQUIRE_BROWSER` is 1.

Needs playwright (`pip install -e '.[browser]'`) and a Chromium: that of `playwright install chromium`, one on
the PATH (`apt-get install chromium`), or that of `$TPNET_BROWSER`.
"""

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class OpenPage:
    """A page in a window of its own."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    """What the browser said of it: errors and warnings."""
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def picture(self, path: Path) -> Path:
        self.page.screenshot(path=path, full_page=True)
        return path


@dataclass(frozen=True)
class RealBrowser:
    """Shared by all tests."""

    browser: Any

    @contextmanager
    def open(self, path: Path, *, width: int, scheme: str) -> Iterator[OpenPage]:
        page = self.browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        opened = OpenPage(page)
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        try:
            page.goto(path.resolve().as_uri())
            yield opened
        finally:
            page.close()


@contextmanager
def real_browser() -> Iterator[RealBrowser]:
    try:
        api: Any = importlib.import_module("playwright.sync_api")
    except ModuleNotFoundError:
        _without("playwright", "run pip install -e '.[browser]' and playwright install chromium")
    with api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = os.environ.get("TPNET_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
        if not found and not Path(own).exists():
            _without("Chromium", "run playwright install chromium, or name one in TPNET_BROWSER")
        browser = playwright.chromium.launch(executable_path=found or own)
        try:
            yield RealBrowser(browser)
        finally:
            browser.close()


def _without(what: str, remedy: str) -> NoReturn:
    reason = f"pages were not looked at: no {what} is here; {remedy}"
    if os.environ.get("TPNET_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(f"{reason} (TPNET_REQUIRE_BROWSER=1 makes this a failure)")
