"""An intern's life in a real browser: made, talked to, asked, suspended, resumed, deleted."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browsing import sign_in
from tests.support.browser import CHROMIUM, Browser, find_barriers

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
BOOTS_MS = 60_000
ANSWERS_MS = 45_000


def test_an_intern_is_provisioned_talked_to_and_suspended(
    facts: dict[str, Any], browser: Browser
) -> None:
    tab = sign_in(browser, facts)
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.get_by_role("link", name="Interns", exact=True).click()
    tab.get_by_role("link", name="Make the first one").click()
    tab.get_by_label("Name").fill("notes")
    tab.get_by_role("button", name="Make and provision it").click()
    now = tab.locator("#now")
    expect(now).to_contain_text("Waits for work", timeout=BOOTS_MS)
    expect(tab.get_by_label("Message")).to_be_visible()
    assert find_barriers(tab) == []

    tab.get_by_label("It asks before").check()
    tab.get_by_label("Message").fill("Take a note: buy milk")
    tab.get_by_role("button", name="Send").click()
    question = tab.locator("#question")
    expect(question).to_contain_text("May it do this?", timeout=ANSWERS_MS)
    expect(now).to_contain_text("Waits for an answer", timeout=ANSWERS_MS)
    # Whoever comes back finds the question.
    tab.reload()
    assert find_barriers(tab) == []
    question.get_by_role("button", name="Allow this once").click()
    expect(question.locator("input")).to_be_visible(timeout=ANSWERS_MS)
    question.locator("input").fill("Shopping")
    question.get_by_role("button", name="Answer").click()
    expect(tab.locator("#log .assistant").last).to_contain_text("Shopping", timeout=ANSWERS_MS)
    expect(tab.locator("#send")).to_be_enabled(timeout=ANSWERS_MS)
    tab.reload()
    expect(tab.locator("#log .user").first).to_contain_text("Take a note: buy milk")
    expect(tab.locator("#log .assistant").last).to_contain_text("Shopping")

    tab.get_by_role("button", name="Suspend").click()
    expect(now).to_contain_text("stopped", timeout=BOOTS_MS)
    tab.get_by_role("button", name="Resume notes").click()
    expect(now).to_contain_text("Waits for work", timeout=BOOTS_MS)
    expect(tab.locator("#log .assistant").last).to_contain_text("Shopping", timeout=ANSWERS_MS)
    tab.get_by_text("Delete notes").click()
    tab.get_by_label("Type its name to confirm").fill("notes")
    tab.get_by_role("button", name="Delete for good").click()
    expect(tab.get_by_role("link", name="notes")).to_have_count(0, timeout=BOOTS_MS)
