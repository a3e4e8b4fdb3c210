"""Whose address a request is counted for."""

from ipaddress import ip_network

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from gateway.http.address import client_behind, client_of

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
    assert client_behind(peer, forwarded, PROXIES) == client


@given(st.text(max_size=60))
def test_without_proxies_nothing_that_is_written_matters(forwarded: str) -> None:
    assert client_behind("203.0.113.9", forwarded, ()) == "203.0.113.9"


@given(st.text(max_size=60))
def test_behind_a_proxy_nothing_before_its_own_word_matters(written: str) -> None:
    assert client_behind("127.0.0.1", f"{written}, 203.0.113.9", PROXIES) == "203.0.113.9"


def test_the_header_counts_where_a_proxy_is_trusted(settings: Settings) -> None:
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.1")
    assert client_of(request) == "10.0.0.1"
    settings.TRUSTED_PROXIES = (ip_network("10.0.0.0/8"),)
    assert client_of(request) == "192.0.2.1"
