"""`make screenshots`: a picture of every page, wide and narrow, light and dark.

A gateway of its own is started in a new home and asked a few things, so that the pages have
something to show. The pictures go to GATEWAY_HOME/screenshots, in other widths with `--width`; with
`--docs` those of the documentation alone are taken, into docs/pictures.
"""

import argparse
import base64
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

import requests
from playwright.sync_api import Page

from gateway.home import home
from tests.console.browsing import PAGES, open_whole
from tests.support.browser import NARROW, WIDE, Browser, Theme, open_browser
from tests.support.manage import PROJECT
from tests.support.running import SUPERVISOR, Run

_REQUESTS = 60
_PAST_REQUESTS = 6_000
_START_S = 120
_DOCS = {
    "home": "/",
    "requests": "/console/requests",
    "models": "/console/models",
    "what-if": "/console/what-if?sort=price&without=simulated-thrifty",
}
# Pages of what stands first in a list.
FIRST_OF = {
    "workspace": "/console/workspaces",
    "guardrail": "/console/guardrails",
    "person": "/console/people",
    "preset": "/console/presets",
    "intern": "/console/interns?as=list",
    "change": "/console/settings/audit",
    "refused": "/console/requests?outcome=refused",
    "failed-over": "/console/requests?outcome=retried",
}


def ask_models(facts: dict[str, Any]) -> str:
    """Some requests, of which one names no model that there is; the id of the last good one."""
    found = ""
    for number in range(_REQUESTS):
        model = "nobody/none" if number % 12 == 5 else "simulated/small"
        model = "simulated/large" if number % 5 == 0 else model
        answer = requests.post(
            f"{facts['base_url']}/chat/completions",
            headers={"Authorization": f"Bearer {facts['api_key']}"},
            json={
                "model": model,
                "messages": [{"role": "user", "content": "Hello " * (number + 1)}],
                "stream": number % 3 == 1,
            },
            timeout=30,
        )
        if answer.ok and number % 3 != 1:
            found = answer.json()["id"]
    return found


def make_things(facts: dict[str, Any]) -> None:
    """An intern, a preset, a decision, and a request that fails over."""
    hello: Any = {"messages": [{"role": "user", "content": "Hello"}], "model": "simulated/small"}
    teams = {"billing": "money and invoices", "support": "what does not work"}
    team = {"type": "choice", "instructions": "Which team should answer?", "criteria": teams}
    decision: Any = {"model": "simulated/small", "state": "The parcel came broken."}
    requests.put(f"{facts['simulator_url']}/_outage/thrifty", json={"seconds": 5}, timeout=30)
    for path, body in (
        ("v1/interns", {"name": "scribe", "description": "Keeps notes", "provision": True}),
        ("v1/presets/brief/chat/completions", {**hello, "temperature": 0.2}),
        ("v1/chat/completions", {**hello, "provider": {"order": ["simulated-thrifty"]}}),
        ("alpha/decisions", {**decision, "questions": {"team": team}}),
    ):
        answer = requests.post(
            f"{facts['root_url']}/api/{path}",
            headers={"Authorization": f"Bearer {facts['api_key']}"},
            json=body,
            timeout=30,
        )
        assert answer.ok, answer.text


def ask_thrifty_first(facts: dict[str, Any]) -> str:
    """A request that prefers the cheapest provider; its id."""
    answer = requests.post(
        f"{facts['base_url']}/chat/completions",
        headers={"Authorization": f"Bearer {facts['api_key']}"},
        json={
            "model": "simulated/small",
            "messages": [{"role": "user", "content": "Which harbours freeze in winter?"}],
            "provider": {"order": ["simulated-thrifty"]},
        },
        timeout=30,
    )
    return str(answer.json()["id"])


def take_pictures(
    browser: Browser, facts: dict[str, Any], folder: Path, widths: Sequence[int]
) -> None:
    """One of each page, in each width and theme."""
    tab = browser.open()
    tab.goto("/")
    tab.screenshot(path=folder / f"front-{WIDE}-light.png", full_page=True)
    tab.goto(facts["console_link"])
    tab.get_by_role("button", name="Open the console").click()
    tab.wait_for_load_state()
    tab.screenshot(path=folder / f"first-request-{WIDE}-light.png", full_page=True)
    make_things(facts)
    pages = {
        re.sub(r"\W+", "-", path.removeprefix("/console/").strip("/")) or "home": path
        for path in PAGES
    }
    pages |= {"not-found": "/console/none", "request": f"/console/requests/{ask_models(facts)}"}
    for name, path in FIRST_OF.items():
        tab.goto(path)
        pages[name] = tab.locator("main tbody a").first.get_attribute("href") or ""
    cookies = tab.context.cookies()
    themes: tuple[Theme, ...] = get_args(Theme)
    for width, theme in product(widths, themes):
        tab = browser.open(width=width, theme=theme)
        tab.context.add_cookies(cookies)  # type: ignore[arg-type]  # They come as they go.
        for name, path in pages.items():
            open_whole(tab, path)
            tab.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)


def take_docs_pictures(browser: Browser, facts: dict[str, Any], folder: Path) -> None:
    """Those that the README and the documentation show, small enough to be kept there."""
    for _ in range(3):
        ask_models(facts)
    home_folder = Path(facts["broker_url"].removeprefix("unix://")).parents[1]
    subprocess.run(
        [sys.executable, "-m", "tests.console.past_requests", str(_PAST_REQUESTS)],
        env={**os.environ, "GATEWAY_HOME": str(home_folder)},
        check=True,
    )
    tab = browser.open()
    tab.goto(facts["console_link"])
    tab.get_by_role("button", name="Open the console").click()
    tab.goto("/console/requests")
    tab.get_by_role("button", name="Make Thrifty fail for a minute").click()
    ask_models(facts)
    failed_over = f"/console/requests/{ask_thrifty_first(facts)}"
    for name, path in {**_DOCS, "request": failed_over}.items():
        open_whole(tab, f"{path}{'&' if '?' in path else '?'}period=30d")
        save_small(tab, folder / f"{name}.webp")
    tab.goto("/console/playground")
    tab.get_by_role("button", name="Add a model").click()
    tab.locator(".play-model").nth(1).fill("simulated/large")
    tab.get_by_label("Message", exact=True).fill("Name three harbours that freeze in winter.")
    tab.get_by_role("button", name="Send").click()
    tab.locator(".play-facts a").nth(1).wait_for()
    save_small(tab, folder / "playground.webp")


def save_small(tab: Page, file: Path) -> None:
    """What the window shows, as WebP, which the browser itself writes."""
    shown = base64.b64encode(tab.screenshot()).decode()
    blank = tab.context.new_page()
    packed = blank.evaluate(_TO_WEBP, shown)
    blank.close()
    file.write_bytes(base64.b64decode(packed))


_TO_WEBP: Final = """
async (png) => {
  const file = await fetch("data:image/png;base64," + png);
  const picture = await createImageBitmap(await file.blob());
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.6).split(",")[1];
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="screenshots", description="Take pictures of the console."
    )
    parser.add_argument("--docs", action="store_true", help="those of the documentation")
    parser.add_argument("--width", type=int, action="append", help="in pixels, in place of both")
    asked = parser.parse_args()
    folder = PROJECT / "docs" / "pictures" if asked.docs else home() / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gateway-") as place:
        run = Run(Path(place) / "home", {}, command=SUPERVISOR)
        try:
            run.wait_until(run.ready_file.exists, "readiness", within_s=_START_S)
            facts = run.ready()
            with open_browser(facts["root_url"]) as browser:
                if asked.docs:
                    take_docs_pictures(browser, facts, folder)
                else:
                    take_pictures(browser, facts, folder, asked.width or (WIDE, NARROW))
        finally:
            run.clean_up()
    sys.stdout.write(f"{len(list(folder.iterdir()))} pictures in {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
