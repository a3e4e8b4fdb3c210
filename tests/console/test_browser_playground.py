"""The playground in a real browser: it calls the API as programs do, and shows what came of it."""

from typing import Any

import pytest
import requests
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.console.browsing import sign_in
from tests.support.browser import CHROMIUM, NARROW, Browser, find_barriers, is_scrolled_sideways

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
FORMATS = ("chat", "messages", "responses")
ARRIVES_MS = 20_000


def open_columns(tab: Page, number: int) -> None:
    tab.goto("/console/playground")
    for _ in range(number - 1):
        tab.get_by_role("button", name="Add a model").click()


def send(tab: Page, text: str) -> None:
    tab.get_by_label("Message", exact=True).fill(text)
    tab.get_by_role("button", name="Send").click()


def forget_refusals(browser: Browser) -> None:
    """The browser complains of every answer above 399."""
    browser.complaints[:] = [each for each in browser.complaints if "status of 4" not in each]


def test_three_formats_answer_side_by_side(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    open_columns(tab, 3)
    for at, format_name in enumerate(FORMATS):
        tab.locator(".play-format").nth(at).select_option(format_name)

    send(tab, "Tell me about harbours.")

    expect(tab.locator(".play-facts a")).to_have_count(3, timeout=ARRIVES_MS)
    for at in range(3):
        column = tab.locator(".play-column").nth(at)
        expect(column).to_contain_text("Simulated answer to: Tell me about harbours.")
        for word in ("Cost $0.0000", "Tokens ", "First token ", "Provider Simulated"):
            expect(column.locator(".play-facts")).to_contain_text(word)
    paths = {url.partition("/api/v1/")[2] for url in asked if "/api/v1/" in url}
    assert {"chat/completions", "messages", "responses"} <= paths
    assert find_barriers(tab) == []

    # A second turn has the first with it, and a text file. It leads to why it went there.
    note: FilePayload = {
        "name": "note.txt",
        "mimeType": "text/plain",
        "buffer": b"They blink at night.",
    }
    tab.locator("#file").set_input_files([note])
    expect(tab.get_by_role("button", name="Remove", exact=True)).to_be_visible()
    send(tab, "And lighthouses?")
    expect(tab.locator(".play-facts a")).to_have_count(6, timeout=ARRIVES_MS)
    for at in range(3):
        answer = tab.locator(".play-column").nth(at).locator(".assistant").last
        expect(answer).to_contain_text("They blink at night.")
    tab.locator(".play-facts a").last.click()
    expect(tab.get_by_role("heading", name="Who was considered")).to_be_visible()
    expect(tab.get_by_text("key Playground of admin")).to_be_visible()


def test_a_stream_is_stopped(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    open_columns(tab, 1)
    tab.locator(".play-model").fill("simulated/large")

    # At 120 words a second it lasts for longer than a busy browser takes to click.
    send(tab, "Say 9000 words.")

    expect(tab.locator(".assistant .play-text")).to_contain_text("another", timeout=ARRIVES_MS)
    tab.get_by_role("button", name="Stop").click()
    expect(tab.get_by_text("Stopped.")).to_be_visible()
    expect(tab.locator(".play-facts")).to_contain_text("Cost $", timeout=ARRIVES_MS)
    # Its record is asked for before it stands, if it is not quick.
    forget_refusals(browser)


def test_a_new_conversation_leaves_the_stream_of_the_last_behind(
    facts: dict[str, Any], browser: Browser
) -> None:
    tab = sign_in(browser, facts)
    open_columns(tab, 1)
    tab.locator(".play-model").fill("simulated/large")
    send(tab, "Say 9000 words.")
    expect(tab.locator(".assistant .play-text")).to_contain_text("another", timeout=ARRIVES_MS)

    tab.get_by_role("button", name="New conversation").click()

    # Another one can be sent when the former is over.
    expect(tab.locator("#send")).to_be_enabled(timeout=ARRIVES_MS)
    tab.get_by_role("button", name="Show as code").click()
    expect(tab.locator("#text-curl")).to_contain_text('"messages"')
    expect(tab.locator("#text-curl")).not_to_contain_text("assistant")
    big: FilePayload = {
        "name": "big.txt",
        "mimeType": "text/plain",
        "buffer": b"x" * (5 * 2**20 + 1),
    }
    tab.get_by_role("button", name="Close").click()
    tab.locator("#file").set_input_files([big])
    expect(tab.locator("#files")).to_contain_text("big.txt is larger than 5 MB")
    forget_refusals(browser)


def test_what_is_wrong_is_said_in_the_column(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    open_columns(tab, 2)
    tab.locator(".play-model").nth(1).fill("nobody/none")

    send(tab, "Hello")

    expect(tab.locator(".play-column").nth(1).locator(".notice.bad")).to_contain_text("nobody/none")
    expect(tab.locator(".play-column").nth(0)).to_contain_text("Cost $", timeout=ARRIVES_MS)
    forget_refusals(browser)


def refuse_a_result(tab: Page) -> None:
    """Of the first column. What was typed stays, and meanwhile nothing else can be sent."""
    column, buttons = tab.locator(".play-column").first, tab.locator(".play-results button")
    disabled: list[bool] = []

    def refuse(route: Route) -> None:
        disabled.extend(buttons.evaluate_all("all => all.map(each => each.disabled)"))
        route.fulfill(status=429, json={"error": {"message": "Come back later"}})

    tab.route("**/chat/completions", refuse)
    column.get_by_label("What get_weather gives").fill("Sun")
    buttons.first.click()
    expect(column.locator(".notice.bad").last).to_contain_text("Come back later")
    expect(buttons.first).to_be_enabled()
    assert disabled == [True] * 3
    expect(column.get_by_label("What get_weather gives")).to_have_value("Sun")
    tab.unroute("**/chat/completions")


def test_tools_come_from_a_form_and_what_they_give_goes_on(
    facts: dict[str, Any], browser: Browser
) -> None:
    """In each format; beside a tool that the gateway runs, whose calls nobody is asked about."""
    tab = sign_in(browser, facts)
    open_columns(tab, 3)
    for at, format_name in enumerate(FORMATS):
        tab.locator(".play-format").nth(at).select_option(format_name)
    tab.locator("#tools summary").click()
    tab.get_by_label("Date and time").check()
    tab.get_by_role("button", name="Add a function").click()
    tab.locator("#functions .tool-name").fill("get_weather")
    tab.get_by_role("button", name="Add a parameter").click()
    tab.get_by_label("Name of the parameter").fill("the city")
    send(tab, "Hello")
    expect(tab.locator(".notice.bad")).to_have_count(3)
    expect(tab.locator(".notice.bad").first).to_contain_text("“the city” is none.")
    tab.get_by_label("Name of the parameter").fill("city")
    assert find_barriers(tab) == []

    send(tab, "Please call get_weather.")

    expect(tab.locator(".play-call")).to_have_count(3, timeout=ARRIVES_MS)
    expect(tab.locator("#send")).to_be_enabled(timeout=ARRIVES_MS)
    refuse_a_result(tab)
    for at in range(3):
        column = tab.locator(".play-column").nth(at)
        expect(column.locator(".play-call")).to_contain_text('get_weather {"city"')
        column.get_by_label("What get_weather gives").fill("Snow")
        column.get_by_role("button", name="Send the result").click()
        answer = column.locator(".assistant").last
        expect(answer).to_contain_text("Simulated answer to", timeout=ARRIVES_MS)
        expect(tab.locator("#send")).to_be_enabled(timeout=ARRIVES_MS)
    expect(tab.locator(".play-results")).to_have_count(0)
    forget_refusals(browser)
    tab.locator(".play-model").first.fill("simulated/clock")
    send(tab, "What time is it?")
    expect(tab.locator(".play-column").first).to_contain_text(
        "Simulated answer by the clock", timeout=ARRIVES_MS
    )


def test_a_decision_is_shown_as_bars(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts, width=NARROW)
    open_columns(tab, 2)
    tab.get_by_role("tab", name="Decisions").click()

    tab.get_by_role("button", name="Decide").click()

    expect(tab.locator(".play-turn progress")).to_have_count(6, timeout=ARRIVES_MS)
    expect(tab.locator(".play-column").first).to_contain_text("confidence")
    assert (find_barriers(tab), is_scrolled_sideways(tab)) == ([], False)


def test_a_request_becomes_code_and_a_preset(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    open_columns(tab, 1)
    tab.get_by_label("Instructions").fill("Answer in one word.")
    tab.get_by_label("Temperature").fill("0.5")

    tab.get_by_role("button", name="Show as code").click()

    expect(tab.locator("#text-curl")).to_contain_text('"temperature": 0.5')
    tab.get_by_role("tab", name="Python").click()
    expect(tab.locator("#text-python")).to_contain_text("from openai import OpenAI")
    tab.get_by_role("tab", name="Preset").click()
    tab.get_by_label("Name").fill("one-word")
    tab.get_by_role("button", name="Save as a preset").click()
    expect(tab.get_by_text("Saved as version 1 of @preset/one-word.")).to_be_visible()
    assert find_barriers(tab) == []
    tab.get_by_role("button", name="Close").click()

    tab.locator(".play-model").fill("@preset/one-word")
    send(tab, "Which colour has the sea?")
    expect(tab.locator(".play-facts")).to_contain_text("Cost $", timeout=ARRIVES_MS)


def test_a_former_version_of_a_preset_is_activated(facts: dict[str, Any], browser: Browser) -> None:
    for words in ("Answer in one word.", "Answer in one word.\nNo more."):
        answer = requests.post(
            f"{facts['base_url']}/presets/brief/chat/completions",
            headers={"Authorization": f"Bearer {facts['api_key']}"},
            json={
                "model": "simulated/small",
                "messages": [{"role": "system", "content": words}],
            },
            timeout=30,
        )
        assert answer.status_code == 200
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="Presets", exact=True).click()
    tab.get_by_role("link", name="brief").click()
    expect(tab.locator(".diff tr.added")).to_contain_text("No more.")
    assert find_barriers(tab) == []

    tab.get_by_role("button", name="Activate version 1").click()

    expect(tab.get_by_text("Version 1 is in force: requests get it")).to_be_visible()
    tab.get_by_role("link", name="Try it").click()
    expect(tab.locator(".play-model")).to_have_value("@preset/brief")
