"""What a request says of itself: whose address it is counted for, and which page it asks for."""

from ipaddress import ip_network
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from gateway.http.address import find_client, resolve_client
from gateway.http.errors import SchemaInvalid
from gateway.http.middleware import ForwardedScheme
from gateway.http.paging import LIMIT_MAX, OFFSET_MAX, Page, parse_page

PROXIES = tuple(map(ip_network, ("127.0.0.1", "10.0.0.0/8", "fd00::/8")))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        # What the client wrote itself stands before what the proxies wrote.
        ("127.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),
        ("10.1.1.1", "1.2.3.4, 198.51.100.1, 10.2.2.2", "198.51.100.1"),
        ("10.1.1.1", "unknown, 10.2.2.2", "10.2.2.2"),
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("::ffff:127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("fd00::1", "[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::/64"),
        ("2001:db8::7", "", "2001:db8::/64"),
        ("", "1.2.3.4", "unknown"),
    ],
)
def test_the_last_address_that_is_no_proxy(peer: str, forwarded: str, client: str) -> None:
    assert resolve_client(peer, forwarded, PROXIES) == client


@given(st.text(max_size=60))
def test_without_proxies_nothing_that_is_written_matters(forwarded: str) -> None:
    assert resolve_client("203.0.113.9", forwarded, ()) == "203.0.113.9"


@given(st.text(max_size=60))
def test_behind_a_proxy_nothing_before_its_own_word_matters(written: str) -> None:
    assert resolve_client("127.0.0.1", f"{written}, 203.0.113.9", PROXIES) == "203.0.113.9"


@pytest.mark.parametrize("is_trusted", [False, True])
def test_headers_count_where_a_proxy_is_trusted(settings: Settings, is_trusted: bool) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.TRUSTED_PROXIES = (ip_network("10.0.0.0/8"),) if is_trusted else ()
    said: dict[str, Any] = {"HTTP_X_FORWARDED_FOR": "192.0.2.1", "HTTP_X_FORWARDED_PROTO": "https"}
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", **said)
    ForwardedScheme(lambda _: HttpResponse())(request)
    assert find_client(request) == ("192.0.2.1" if is_trusted else "10.0.0.1")
    assert request.is_secure() is is_trusted


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
        assert parse_page(query) == page
    for query, text in ODD:
        with pytest.raises(SchemaInvalid) as refusal:
            parse_page(query)
        assert refusal.value.text == text


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_words_make_a_page_in_bounds_or_none(offset: str, limit: str) -> None:
    try:
        page = parse_page({"offset": offset, "limit": limit})
    except SchemaInvalid:
        return
    assert 0 <= page.offset <= OFFSET_MAX
    assert 1 <= page.limit <= LIMIT_MAX
    assert page.rows.stop < 2**63
