"""What tests in a browser do again and again."""

from typing import Any

import requests
from playwright.sync_api import Page, expect

from tests.support.browser import Browser

# Every page; a new one joins them.
PAGES = (
    *("/", "/console/requests", "/console/models", "/console/models/simulated/small"),
    *("/console/models?policy=zdr&max_price=5", "/console/interns?as=list"),
    "/console/compare-models?model=simulated/small&model=simulated/large",
    *("/console/playground", "/console/presets", "/console/decisions"),
    *("/console/interns", "/console/interns/new"),
    "/console/what-if?sort=price&max_price_in=5",
    *("/console/keys", "/console/keys/new", "/console/keys/1"),
    *("/console/workspaces", "/console/workspaces/new", "/console/people", "/console/people/new"),
    *("/console/credits", "/console/settings", "/console/settings/logging"),
    *("/console/settings/destinations", "/console/settings/destinations/new/s3"),
    *("/console/settings/alerts", "/console/settings/alerts/new", "/console/settings/audit"),
    "/console/settings/audit/1",
    *("/console/guardrails", "/console/guardrails/new"),
    *("/console/providers", "/console/providers/new", "/console/providers/simulated-thrifty"),
    "/console/providers/simulated-thrifty/prices",
    *("/console/you", "/console/you/passkeys/new"),
)


def ask(facts: dict[str, Any], key: str | None = None) -> str:
    """One chat request; the id of its generation."""
    answer = requests.post(
        f"{facts['base_url']}/chat/completions",
        headers={"Authorization": f"Bearer {key or facts['api_key']}"},
        json={"model": "simulated/small", "messages": [{"role": "user", "content": "Hello"}]},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def sign_in(browser: Browser, facts: dict[str, Any], **options: Any) -> Page:
    """The console's first page as the operator sees it. Only the browser's first tab asks who it
    is."""
    tab = browser.open(session=browser.session, **options)
    tab.goto("/")
    if browser.session is not None:
        return tab
    tab.get_by_label("User name").fill(facts["admin_user"])
    tab.get_by_label("Password").fill(facts["admin_password"])
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("button", name="Light or dark")).to_be_visible()
    browser.session = tab.context.storage_state()
    return tab


def open_whole(tab: Page, path: str) -> None:
    """Open a page and wait for the parts that it loads after itself.

    Live parts ask for ever, so the network never rests.
    """
    tab.goto(path)
    expect(tab.locator("[hx-trigger=load].htmx-request")).to_have_count(0)
