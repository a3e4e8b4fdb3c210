"""`make screenshots`: a picture of every page, wide and narrow, light and dark.

A gateway of its own is started in a new home and asked a few things, so that the pages have
something to show. The pictures go to GATEWAY_HOME/screenshots.
"""

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, get_args

import requests

from gateway.home import home
from tests.support.browser import NARROW, WIDE, Browser, Theme, open_browser
from tests.support.running import SUPERVISOR, Run

_REQUESTS = 60
_START_S = 120
PAGES = {
    "home": "/",
    "requests": "/console/requests",
    "playground": "/console/playground",
    "presets": "/console/presets",
    "decisions": "/console/decisions",
    "interns": "/console/interns",
    "new-intern": "/console/interns/new",
    "models": "/console/models",
    "model": "/console/models/simulated/small",
    "what-if": "/console/what-if?sort=price&without=simulated-thrifty",
    "keys": "/console/keys",
    "new-key": "/console/keys/new",
    "key": "/console/keys/1",
    "workspaces": "/console/workspaces",
    "new-workspace": "/console/workspaces/new",
    "people": "/console/people",
    "guardrails": "/console/guardrails",
    "new-guardrail": "/console/guardrails/new",
    "providers": "/console/providers",
    "new-provider": "/console/providers/new",
    "provider": "/console/providers/simulated-thrifty",
    "prices": "/console/providers/simulated-thrifty/prices",
    "credits": "/console/credits",
    "settings": "/console/settings",
    "settings-logging": "/console/settings/logging",
    "settings-destinations": "/console/settings/destinations",
    "settings-new-destination": "/console/settings/destinations/new/s3",
    "settings-alerts": "/console/settings/alerts",
    "settings-new-channel": "/console/settings/alerts/new",
    "settings-audit": "/console/settings/audit",
    "you": "/console/you",
    "not-found": "/console/none",
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


def take_pictures(browser: Browser, facts: dict[str, Any], folder: Path) -> None:
    """One of each page, in each width and theme."""
    tab = browser.open()
    tab.goto("/")
    tab.screenshot(path=folder / f"front-{WIDE}-light.png", full_page=True)
    tab.goto(facts["console_link"])
    tab.get_by_role("button", name="Open the console").click()
    tab.wait_for_load_state("networkidle")
    tab.screenshot(path=folder / f"first-request-{WIDE}-light.png", full_page=True)
    pages = PAGES | {"request": f"/console/requests/{ask_models(facts)}"}
    cookies = tab.context.cookies()
    themes: tuple[Theme, ...] = get_args(Theme)
    for width, theme in product((WIDE, NARROW), themes):
        tab = browser.open(width=width, theme=theme)
        tab.context.add_cookies(cookies)  # type: ignore[arg-type]  # They come as they go.
        for name, path in pages.items():
            tab.goto(path)
            tab.wait_for_load_state("networkidle")
            tab.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)


def main() -> int:
    folder = home() / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gateway-") as place:
        run = Run(Path(place) / "home", {}, command=SUPERVISOR)
        try:
            run.until(run.ready_file.exists, "readiness", within_s=_START_S)
            facts = run.ready()
            with open_browser(facts["root_url"]) as browser:
                take_pictures(browser, facts, folder)
        finally:
            run.clean_up()
    sys.stdout.write(f"{len(list(folder.glob('*.png')))} pictures in {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
