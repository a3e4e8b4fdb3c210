"""A real browser on pages of the gateway, which must load nothing from elsewhere and complain of
nothing.

Chromium is Debian's package or another one on the PATH; Playwright's own is not downloaded.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDE, NARROW = 1400, 390
Theme = Literal["light", "dark"]
_SERIOUS = {"serious", "critical"}


class Browser:
    """A browser with its tabs; what they had to complain of stands in `complaints`. `session` is
    what somebody who signed in has in the browser."""

    def __init__(self, chromium: Any, root_url: str) -> None:
        self._chromium = chromium
        self._host = urlsplit(root_url).netloc
        self.root_url = root_url
        self.complaints: list[str] = []
        self.session: Any = None

    def at(self, root_url: str) -> "Browser":
        """The same program for pages of another address."""
        return Browser(self._chromium, root_url)

    def close_tabs(self) -> None:
        for context in self._chromium.contexts:
            context.close()

    def open(self, *, width: int = WIDE, theme: Theme = "light", session: Any = None) -> Page:
        """A tab with cookies of its own."""
        context = self._chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            base_url=self.root_url,
            timezone_id="Europe/Berlin",
            locale="en-GB",
            storage_state=session,
        )
        tab: Page = context.new_page()
        tab.on("console", self._note_message)
        tab.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        tab.on("request", self._note_request)
        return tab

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location})")

    def _note_request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._host:
            self.complaints.append(f"a request to {parts.netloc}")


@contextmanager
def open_browser(root_url: str) -> Iterator[Browser]:
    assert CHROMIUM is not None, "apt-get install chromium"
    with sync_playwright() as driver:
        # Without a user namespace, which root has no use for, Chromium's own sandbox cannot start.
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        with suppress_at_end(chromium):
            yield Browser(chromium, root_url)


@contextmanager
def suppress_at_end(chromium: Any) -> Iterator[None]:
    try:
        yield
    finally:
        # It may have died, or its driver: the test has said so.
        with suppress(Exception):
            chromium.close()


def find_barriers(tab: Page) -> list[str]:
    """What axe finds serious or worse on the page, one line each."""
    found = Axe().run(tab, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}: {node['target']} {json.dumps(node.get('failureSummary', ''))[:300]}"
        for each in found
        if each["impact"] in _SERIOUS
        for node in each["nodes"]
    ]


def is_scrolled_sideways(tab: Page) -> bool:
    """Whether the page is wider than the window."""
    script = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
    return bool(tab.evaluate(script))


def measure_shift(tab: Page) -> float:
    """How far the page's parts moved by themselves since it was opened: Cumulative Layout Shift."""
    return float(tab.evaluate(_SHIFT))


_SHIFT: Final = """
() => {
  const seen = new PerformanceObserver(() => {});
  seen.observe({ type: "layout-shift", buffered: true });
  const own = seen.takeRecords().filter((each) => !each.hadRecentInput);
  return own.reduce((sum, each) => sum + each.value, 0);
}
"""
