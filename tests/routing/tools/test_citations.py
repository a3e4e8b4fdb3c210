"""Where answers cite what was found."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.tools.texts import place_citations


def page(url: str, title: str = "") -> dict[str, Any]:
    place = {"start_index": 0, "end_index": 0}
    return {"type": "url_citation", "url_citation": {"url": url, "title": title, **place}}


def places(found: list[dict[str, Any]], text: str, before: int = 0) -> list[tuple[str, str]]:
    told = [each["url_citation"] for each in place_citations(found, text, before=before)]
    return [
        (each["url"], text[each["start_index"] - before : each["end_index"] - before])
        for each in told
    ]


A, B = "https://a.example/x", "https://b.example/"


def test_links_and_bare_urls_have_their_places_in_the_order_of_the_text() -> None:
    text = f"So [b]({B}) says, and <{A}>. Also [a]({A})."
    assert places([page(A), page(B)], text) == [(B, f"[b]({B})"), (A, f"[a]({A})")]
    assert places([page(A), page(B)], text, before=7)[0] == (B, f"[b]({B})")


def test_a_last_slash_is_no_difference_and_a_longer_url_is_another() -> None:
    assert places([page(B)], "See https://b.example.") == [(B, "https://b.example")]
    assert places([page(A)], f"See {A}/y and {A}?z.") == [(A, "")]
    assert places([page(A)], f'See [a]({A} "A title").') == [(A, f'[a]({A} "A title")')]


def test_where_none_is_named_all_that_were_found_are_told_once() -> None:
    assert places([page(A), page(B), page(A)], "Nothing.") == [(A, ""), (B, "")]
    assert place_citations([], "Nothing.") == []


def test_those_that_are_not_named_are_left_out_where_some_are() -> None:
    assert places([page(A), page(B)], f"See {B}") == [(B, B)]


@given(st.lists(st.sampled_from([A, B, "https://c.example/(1)?q=[2]"])), st.text())
def test_any_text_and_any_pages(urls: list[str], text: str) -> None:
    told = place_citations([page(url) for url in urls], text + "".join(urls))
    assert {each["url_citation"]["url"] for each in told} <= set(urls)
    assert bool(told) is bool(urls)
