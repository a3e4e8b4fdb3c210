"""URLs of others: what they lead to, and which lead nowhere."""

import ipaddress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.outbound import doors
from gateway.outbound.doors import is_public
from gateway.outbound.targets import (
    TargetRefused,
    follow_redirect,
    same_origin,
    split_url,
    target_of,
)


def url_of(url: str) -> str:
    return target_of(*split_url(url)).url


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("HTTPS://Example.COM", "https://example.com/"),
        ("http://example.com.:80/a#b", "http://example.com/a"),
        ("http://example.com:8080?q=ä b", "http://example.com:8080/?q=%C3%A4%20b"),
        ("http://example.com/a/../b/./c?d/../e", "http://example.com/b/c?d/../e"),
        ("http://example.com/../../a", "http://example.com/a"),
        ("http://exämple.com/", "http://xn--exmple-cua.com/"),
        ("http://example.com/a\r\nX: y", "http://example.com/a%0D%0AX:%20y"),
        ("http://example.com/a\\..\\b", "http://example.com/a%5C..%5Cb"),
        ("http://[::1]:8000/", "http://[::1]:8000/"),
    ],
)
def test_a_url_is_sent_as_it_is_meant(url: str, meant: str) -> None:
    assert url_of(url) == meant


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "//example.com", "ftp://example.com", "file:///etc/passwd", "http://",
     "http:///a", "http://user@example.com", "http://a:b@example.com", "http://exa mple.com",
     "http://example.com\\@evil.com", "http://example.com:0/", "http://example.com:25/",
     "http://example.com:99999/", "http://example.com:x/", "http://[::1", "gopher://a",
     "http://" + "a" * 8200, "http://\r\nexample.com"],
)  # fmt: skip
def test_other_urls_lead_nowhere(url: str) -> None:
    with pytest.raises(TargetRefused):
        url_of(url)


def test_the_bounds_of_what_is_taken() -> None:
    longest = "http://a.example/" + "a" * (8192 - 17)
    assert url_of(longest) == longest
    with pytest.raises(TargetRefused, match="longer than 8192"):
        url_of(longest + "a")
    assert url_of("http://a.example:1024/") == "http://a.example:1024/"
    with pytest.raises(TargetRefused, match="Port 1023"):
        url_of("http://a.example:1023/")


def test_an_origin_is_scheme_host_and_port() -> None:
    bases = ("http://a.example", "https://a.example", "http://b.example", "http://a.example:8080")
    one, *others = (target_of(*split_url(f"{base}/a")) for base in bases)
    assert same_origin(one, target_of(*split_url("http://A.example:80/b")))
    assert not any(same_origin(one, other) for other in others)


@pytest.mark.parametrize(
    ("location", "led"),
    [
        ("/b", "https://one.example/b"),
        ("b?c", "https://one.example/a/b?c"),
        ("//two.example", "https://two.example/"),
        ("http://two.example:8080/x", "http://two.example:8080/x"),
        ("?q", "https://one.example/a/x?q"),
    ],
)
def test_redirects_are_read_from_where_they_come(location: str, led: str) -> None:
    start = target_of(*split_url("https://one.example/a/x"))
    assert follow_redirect(start, location).url == led


@pytest.mark.parametrize("location", ["javascript:1", "file:///etc/passwd", "http://[", "data:,a"])
def test_redirects_to_elsewhere_are_refused(location: str) -> None:
    with pytest.raises(TargetRefused):
        follow_redirect(target_of(*split_url("https://one.example/")), location)


@given(st.text(max_size=80))
@example("/[")
def test_whatever_is_said_is_a_plain_path_or_refused(rest: str) -> None:
    try:
        target = target_of(*split_url(f"http://example.com/{rest}"))
    except TargetRefused:
        return
    assert target.host == "example.com"
    assert target.path.isascii()
    assert not set(" \r\n\t\0#\\") & set(target.path)
    assert not target.path.split("?")[0].startswith("/../")


@pytest.mark.parametrize(
    "host",
    ["fec0::1", "5f00::1", "64:ff9b:1::a00:1", "::10.0.0.1", "168.63.129.16", "192.88.99.1",
     "100.100.100.200", "not-an-address", "", "::ffff:0:127.0.0.1", "2001:0:7f00:1::",
     # A local NAT64 of 48 bits sends this one to 10.0.0.1, whatever the last 32 bits say.
     "64:ff9b:1:a00:0:100:5db8:d822"],
)  # fmt: skip
def test_more_addresses_that_are_not_public(host: str) -> None:
    assert not is_public(host)


@pytest.mark.parametrize(
    "host",
    ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822",
     "64:ff9b:1::5db8:d822", "::5db8:d822", "2002:5db8:d822::"],
)  # fmt: skip
def test_public_addresses(host: str) -> None:
    assert is_public(host)


@pytest.mark.parametrize("host", ["224.0.0.1", "239.255.255.250", "ff0e::1"])
def test_multicast_is_not_public_even_where_it_may_not_be_bound(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(doors, "_may_be_bound", lambda host: False)
    assert not is_public(host)


@pytest.mark.parametrize("public", ["93.184.216.34", "2606:4700::1111"])
def test_a_public_address_of_this_machine_is_not_for_others(
    monkeypatch: pytest.MonkeyPatch, public: str
) -> None:
    own = {public}
    monkeypatch.setattr(doors, "_may_be_bound", lambda host: host in own)
    assert not is_public(public)
    assert is_public("1.1.1.1")
    # Where any address may be bound, that says nothing of whose it is.
    own |= {"192.0.2.1"}
    assert is_public(public)


def test_an_address_of_this_machine_may_be_bound() -> None:
    assert doors._may_be_bound("127.0.0.1")
    assert not doors._may_be_bound("not-an-address")
    assert doors._may_be_bound("::1") is Path("/proc/net/if_inet6").exists()


@given(st.ip_addresses())
def test_nothing_private_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if address.is_private or address.is_link_local or address.is_multicast or address.is_loopback:
        embeds = isinstance(address, ipaddress.IPv6Address) and (
            address.ipv4_mapped or address.sixtofour or int(address) < 2**32
        )
        assert embeds or not is_public(str(address))
