"""What leads, admins and operators do in the console, in a real browser."""

from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from tests.console.browsing import ask, sign_in
from tests.support.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def test_a_budget_is_exhausted_and_raised(facts: dict[str, Any], browser: Browser) -> None:
    ask(facts)
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="Workspaces", exact=True).click()
    tab.get_by_role("link", name="Default Workspace").click()

    def set_budget(usd: str) -> None:
        tab.get_by_label("Interval").select_option("daily")
        tab.get_by_label("Limit in USD").fill(usd)
        tab.get_by_role("button", name="Set the budget").click()
        expect(tab.get_by_text("The budget holds from now on")).to_be_visible()

    set_budget("0.000000001")
    expect(tab.get_by_text("Spent: requests are refused")).to_be_visible()
    refused = requests.post(
        f"{facts['base_url']}/chat/completions",
        headers={"Authorization": f"Bearer {facts['api_key']}"},
        json={"model": "simulated/small", "messages": [{"role": "user", "content": "Hello"}]},
        timeout=30,
    )
    assert (refused.status_code, "budget" in refused.text) == (403, True)
    tab.goto("/")
    expect(tab.get_by_text("Default Workspace, daily budget")).to_be_visible()

    tab.goto("/console/workspaces")
    tab.get_by_role("link", name="Default Workspace").click()
    set_budget("5")
    ask(facts)
    tab.once("dialog", lambda dialog: dialog.accept())
    tab.get_by_role("button", name="Remove").click()
    expect(tab.get_by_text("The daily budget is gone")).to_be_visible()
