"""What a person sees in the first minutes, in a real browser against everything that `make run`
starts."""

import time
from itertools import product
from typing import Any, get_args

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import PAGES, ask, open_whole, sign_in
from tests.support.browser import (
    CHROMIUM,
    NARROW,
    WIDE,
    Browser,
    Theme,
    find_barriers,
    is_scrolled_sideways,
    measure_shift,
)
from tests.support.promptness import in_time

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
ARRIVES_MS = 10_000
TAIL_S_MAX = 2.0
SHIFT_MAX = 0.1
LOOKS = tuple(product((WIDE, NARROW), ("light", "dark")))


def test_the_first_minutes(new_facts: dict[str, Any], browser: Browser) -> None:
    """The link signs in; the first request lights up by itself; a failover is seen and told."""
    facts, newcomer = new_facts, browser.at(new_facts["root_url"])
    tab = newcomer.open()
    tab.goto(facts["console_link"])
    tab.get_by_role("button", name="Open the console").click()
    expect(tab.get_by_role("heading", name="Make your first request")).to_be_visible()
    assert find_barriers(tab) == []

    first = ask(facts)

    expect(tab.get_by_text("It arrived")).to_be_visible(timeout=ARRIVES_MS)
    tab.get_by_role("link", name="See why it went there").click()
    expect(tab.get_by_text(first, exact=True)).to_be_visible()
    expect(tab.get_by_role("heading", name="Who was considered")).to_be_visible()
    assert find_barriers(tab) == []

    tab.get_by_role("link", name="Requests", exact=True).click()
    expect(tab.locator("tbody tr")).to_have_count(1)
    tab.get_by_role("button", name="Make Thrifty fail for a minute").click()
    expect(tab.get_by_text("Thrifty fails every request for a minute")).to_be_visible()
    for _ in range(20):
        ask(facts)
    told = tab.get_by_text("answered, attempt 2").first
    expect(told).to_be_visible(timeout=ARRIVES_MS)
    tab.locator("tr", has=tab.get_by_text("answered, attempt 2")).first.get_by_role("link").click()
    expect(tab.locator(".lead")).to_contain_text("Thrifty answered 503 in")
    expect(tab.locator(".lead")).to_contain_text("you paid $0.0000")
    for stage in ("Plan", "Hold", "Thrifty", "first token", "Settle"):
        expect(tab.locator(".waterfall")).to_contain_text(stage)
    assert newcomer.complaints == []


def test_a_key_is_made_and_used(facts: dict[str, Any], browser: Browser) -> None:
    tab = sign_in(browser, facts)
    tab.get_by_role("link", name="Keys", exact=True).click()
    tab.get_by_role("link", name="New key").click()
    tab.get_by_label("Name").fill("from the console")
    tab.get_by_label("Limit in USD").fill("0.5")
    tab.get_by_role("button", name="Make the key").click()
    string = tab.locator("#key-string").inner_text()
    tab.get_by_role("tab", name="Claude Code").click()
    expect(tab.locator("#text-claude")).to_contain_text(string)
    assert find_barriers(tab) == []

    generation = ask(facts, string)

    tab.get_by_role("link", name="Watch its requests").click()
    tab.get_by_role("row", name="from the console").get_by_role("link").click()
    expect(tab.get_by_text(generation, exact=True)).to_be_visible()


def test_who_stands_on_a_row_with_the_keyboard_stays_there(
    facts: dict[str, Any], browser: Browser
) -> None:
    """The list is made anew as requests come. What asks for it is nobody who uses the session."""
    first = ask(facts)
    tab = sign_in(browser, facts)
    tab.goto("/console/requests")
    tab.wait_for_event("request", lambda asked: asked.headers.get("x-tick") == "1")
    row = tab.locator(f"tbody a[href$='{first}']")
    row.focus()

    second = ask(facts)
    answered_s = time.monotonic()

    expect(tab.locator(f"tbody a[href$='{second}']")).to_be_visible(timeout=ARRIVES_MS)
    in_time(time.monotonic() - answered_s, TAIL_S_MAX)
    expect(row).to_be_focused()


def test_each_page_has_no_barriers_and_fits(facts: dict[str, Any], browser: Browser) -> None:
    """In one width and one theme each, by turns."""
    front = browser.open(width=NARROW)
    front.goto("/")
    assert list_faults(front) == []
    paths = (*PAGES, f"/console/requests/{ask(facts)}")
    for place, (width, theme) in enumerate(LOOKS):
        tab = sign_in(browser, facts, width=width, theme=theme)
        for path in paths[place :: len(LOOKS)]:
            open_whole(tab, path)
            assert (path, list_faults(tab)) == (path, [])


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_page_has_barriers_in_any_width_and_theme(
    facts: dict[str, Any], browser: Browser, width: int
) -> None:
    tab = sign_in(browser, facts, width=width)
    faults = {}
    for path in (*PAGES, f"/console/requests/{ask(facts)}"):
        open_whole(tab, path)
        # How much moves depends on how fast the machine draws, too.
        faults[path] = [f"moves by {shift}"] if (shift := measure_shift(tab)) > SHIFT_MAX else []
        for theme in get_args(Theme):
            tab.emulate_media(color_scheme=theme)
            faults[path] += [f"{theme}: {fault}" for fault in list_faults(tab)]
    assert {path: found for path, found in faults.items() if found} == {}


def list_faults(tab: Page) -> list[str]:
    return find_barriers(tab) + ["is wider than the window"] * is_scrolled_sideways(tab)


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_the_admin_has_no_barriers(
    facts: dict[str, Any], browser: Browser, width: int, theme: Theme
) -> None:
    tab = sign_in(browser, facts, width=width, theme=theme)
    lists = ("", "accounts/account/", "interns/intern/")
    forms = ("accounts/apikey/add/", "auth/group/add/", "routing/endpoint/add/")
    for path in (*lists, *forms):
        tab.goto(f"/admin/{path}")
        tab.wait_for_load_state("networkidle")
        assert (path, list_faults(tab)) == (path, [])


def test_a_passkey_signs_in_without_a_password(facts: dict[str, Any], browser: Browser) -> None:
    # Browsers take passkeys for names, not for addresses.
    local = browser.at(facts["root_url"].replace("127.0.0.1", "localhost"))
    tab = sign_in(local, facts)
    devtools = tab.context.new_cdp_session(tab)
    devtools.send("WebAuthn.enable")
    device = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True,
        "hasUserVerification": True, "isUserVerified": True,
    }  # fmt: skip
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": device})
    tab.goto("/console/you")
    tab.get_by_role("link", name="Add a passkey").click()
    tab.get_by_label("Password").fill(facts["admin_password"])
    tab.get_by_role("button", name="Go on").click()
    tab.get_by_role("button", name="Make the passkey").click()
    expect(tab.get_by_role("heading", name="Recovery codes")).to_be_visible()
    tab.get_by_role("link", name="Done").click()
    tab.get_by_role("button", name="Sign out").click()

    tab.get_by_role("button", name="Use a passkey").click()

    expect(tab.get_by_role("button", name="Light or dark")).to_be_visible()
    assert local.complaints == []
    tab.goto("/console/you")
    tab.get_by_role("link", name="Remove Master key").click()
    tab.get_by_label("Password").fill(facts["admin_password"])
    tab.get_by_role("button", name="Go on").click()
    tab.get_by_role("button", name="Remove it").click()
    expect(tab.get_by_text("Remove Master key")).to_have_count(0)
