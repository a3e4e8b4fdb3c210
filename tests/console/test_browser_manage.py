"""What leads, admins and operators do in the console, in a real browser."""

from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from tests.console.browsing import ask, sign_in
from tests.routing.catalogue.scripted_provider import Handler, ScriptedProvider
from tests.support.browser import CHROMIUM, Browser, find_barriers
from tests.support.local_site import Running

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
BOOTS_MS = 60_000
ANSWERS_MS = 45_000


def test_a_budget_is_exhausted_and_raised(facts: dict[str, Any], browser: Browser) -> None:
    ask(facts)
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="Workspaces", exact=True).click()
    tab.get_by_role("link", name="Default Workspace").click()

    def set_budget(usd: str) -> None:
        tab.locator("#id_interval").select_option("daily")
        tab.get_by_label("Limit in USD", exact=True).fill(usd)
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


def test_a_provider_is_added_by_the_wizard_and_answers(
    facts: dict[str, Any], browser: Browser
) -> None:
    """It is a server of one's own on loopback, which lists a model and answers requests."""
    with Running(ScriptedProvider, Handler) as upstream:
        upstream.lists("tiny")
        tab = sign_in(browser, facts)
        tab.get_by_role("link", name="Providers", exact=True).click()
        tab.get_by_role("link", name="Add a provider").click()
        tab.get_by_label("Name").fill("My server")
        tab.get_by_label("Slug").fill("mine")
        tab.get_by_label("Address").fill(upstream.base_url)
        tab.get_by_role("button", name="Check and go on").click()
        expect(tab.get_by_text("My server answers, with 1 models")).to_be_visible()
        tab.get_by_label("In, mine/tiny").fill("0.1")
        tab.get_by_label("Out, mine/tiny").fill("0.4")
        assert find_barriers(tab) == []
        tab.get_by_role("button", name="Save and enable the provider").click()
        expect(tab.get_by_text("gets requests from now on")).to_be_visible()
        tab.get_by_role("button", name="Test request").click()
        expect(tab.get_by_text("answered", exact=True)).to_be_visible()
        assert find_barriers(tab) == []
        tab.get_by_role("link", name="mine/tiny").click()
        expect(tab.get_by_role("heading", name="mine/tiny")).to_be_visible()


def test_a_guardrail_is_written_in_rows_and_tried(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="Guardrails", exact=True).click()
    tab.get_by_role("link", name="Everything in Default Workspace").click()
    expect(tab.get_by_text("Prompts looked at")).to_be_visible()
    tab.get_by_label("E-mail addresses", exact=True).select_option("redact")
    guard = "Moderation by the provider"
    tab.get_by_label(guard, exact=True).fill("simulated-thrifty")
    tab.get_by_label(f"{guard}: then").select_option("block")
    tab.get_by_role("button", name="Save").click()
    expect(tab.get_by_text("Requests are held to it")).to_be_visible()
    expect(tab.get_by_label(f"{guard}: time in ms")).to_have_value("2000")
    tab.get_by_label("Text").fill("Write to ada@example.org")
    tab.get_by_role("button", name="Try it").click()
    expect(tab.get_by_text("Write to [EMAIL]")).to_be_visible()
    assert find_barriers(tab) == []
    tab.once("dialog", lambda dialog: dialog.accept())
    tab.get_by_role("button", name="Delete the guardrail").click()
    expect(tab.get_by_text("holds nobody any more")).to_be_visible()


def test_other_rules_are_tried_on_what_was_asked(facts: dict[str, Any], browser: Browser) -> None:
    ask(facts)
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="What-if", exact=True).click()
    tab.get_by_label("Order of providers").select_option("price")
    tab.get_by_label("Without", exact=True).select_option("simulated-thrifty")

    tab.get_by_role("button", name="Replay").click()

    expect(tab.get_by_role("heading", name="Who would answer")).to_be_visible()
    for name in ("Cost before", "Cost after"):
        expect(tab.locator(".tile", has_text=name)).to_contain_text("$0.0")
    # The address says the rules: somebody else can open it.
    assert "sort=price" in tab.url
    assert "without=simulated-thrifty" in tab.url


def test_an_intern_is_provisioned_talked_to_and_suspended(
    facts: dict[str, Any], browser: Browser
) -> None:
    """Made, talked to, asked, suspended, resumed, deleted."""
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
