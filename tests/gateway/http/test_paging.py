"""`offset` and `limit`: what is a page, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import SchemaInvalid
from gateway.http.paging import LIMIT_MAX, OFFSET_MAX, Page, page_of

PAGES: list[tuple[dict[str, str], Page]] = [
    ({}, Page(0, 50)),
    ({"offset": ""}, Page(0, 50)),
    ({"offset": "null"}, Page(0, 50)),
    ({"offset": "7", "limit": "100"}, Page(7, 100)),
    ({"limit": "1", "other": "x"}, Page(0, 1)),
    ({"offset": str(OFFSET_MAX)}, Page(OFFSET_MAX, 50)),
]
NO_NUMBER = "Invalid input: expected int, received string"
SMALL = "limit: Too small: expected number to be >=1"
ODD: list[tuple[dict[str, str], str]] = [
    ({"limit": "101"}, "limit: Too big: expected number to be <=100"),
    ({"limit": "0"}, SMALL),
    *(({"limit": text}, f"limit: {NO_NUMBER}") for text in ("", "null", "1.5", "٣")),
    ({"offset": "-1"}, "offset: Too small: expected number to be >=0"),
    ({"offset": str(2**63)}, f"offset: Too big: expected number to be <={OFFSET_MAX}"),
    ({"offset": str(OFFSET_MAX + 1)}, f"offset: Too big: expected number to be <={OFFSET_MAX}"),
    ({"offset": "x", "limit": "-1"}, f"offset: {NO_NUMBER}; {SMALL}"),
]


def test_a_page_is_read_and_what_is_out_of_range_is_refused() -> None:
    for query, page in PAGES:
        assert page_of(query) == page
    for query, text in ODD:
        with pytest.raises(SchemaInvalid) as refusal:
            page_of(query)
        assert refusal.value.text == text


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_words_make_a_page_in_bounds_or_none(offset: str, limit: str) -> None:
    try:
        page = page_of({"offset": offset, "limit": limit})
    except SchemaInvalid:
        return
    assert 0 <= page.offset <= OFFSET_MAX
    assert 1 <= page.limit <= LIMIT_MAX
    assert page.rows.stop < 2**63
