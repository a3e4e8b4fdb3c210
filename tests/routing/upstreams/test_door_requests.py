"""What is refused before a byte is sent, and how base URLs are read (S4)."""

import pytest

from routing.upstreams.door import Origin
from tests.routing.upstreams.conftest import Caller, Serve
from tests.routing.upstreams.raw_upstream import always, answer

BAD_HEADERS = [
    ("X-Title", "a\r\nX-Evil: 1"),
    ("X-Title", "a\nX-Evil: 1"),
    ("X-Title", "a\rb"),
    ("X-Title", "a\0b"),
    ("X-Title", "snow\u2603man"),
    ("X-Evil: 1\r\nX", "a"),
    ("X Evil", "a"),
    ("X:", "a"),
    ("", "a"),
    ("Caf\xe9", "a"),
    ("Host", "169.254.169.254"),
    ("Content-Length", "0"),
    ("transfer-encoding", "chunked"),
    ("Connection", "close"),
    ("Proxy-Authorization", "Basic eA=="),
]


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_a_header_that_bends_the_request_is_refused(
    header: tuple[str, str], serve: Serve, call: Caller
) -> None:
    upstream = serve(always(answer()))
    with pytest.raises(ValueError, match="header") as caught:
        call(upstream, headers=[("X-Good", "1"), header])
    assert upstream.connections == 0
    assert "Evil: 1" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "chat",
        "http://169.254.169.254/",
        "/chat HTTP/1.1\r\nX: 1",
        "/a b",
        "/a#b",
        "/models/../admin",
        "/..",
        "/caf\xe9",
        "/a\0",
    ],
)
def test_a_path_that_bends_the_request_is_refused(path: str, serve: Serve, call: Caller) -> None:
    upstream = serve(always(answer()))
    with pytest.raises(ValueError, match="path"):
        call(upstream, path=path)
    assert upstream.connections == 0


@pytest.mark.parametrize("method", ["", "GET /", "POST\r\n"])
def test_a_method_that_bends_the_request_is_refused(method: str, call: Caller) -> None:
    with pytest.raises(ValueError, match="method"):
        call("http://127.0.0.1:1", method=method)


def test_a_path_that_names_two_slashes_stays_on_the_host(serve: Serve, call: Caller) -> None:
    upstream = serve(always(answer()))
    call(upstream, path="//169.254.169.254/x")
    assert upstream.requests[0].startswith(b"POST //169.254.169.254/x HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("base_url", "host", "port", "prefix", "host_header"),
    [
        ("http://a.example", "a.example", 80, "", "a.example"),
        ("https://A.Example/v1/", "a.example", 443, "/v1", "a.example"),
        ("HTTPS://a.example:8443/x/y", "a.example", 8443, "/x/y", "a.example:8443"),
        ("http://a.example:80/", "a.example", 80, "", "a.example"),
        ("http://[::1]:9/v1", "::1", 9, "/v1", "[::1]:9"),
        ("https://b\xfccher.example", "xn--bcher-kva.example", 443, "", "xn--bcher-kva.example"),
    ],
)
def test_a_base_url_is_taken_apart(
    base_url: str, host: str, port: int, prefix: str, host_header: str
) -> None:
    origin = Origin.parse(base_url)
    assert (origin.host, origin.port, origin.path_prefix) == (host, port, prefix)
    assert origin.host_header == host_header
    assert origin.is_tls == (origin.scheme == "https")
    assert hash(origin) == hash(Origin.parse(base_url))


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "a.example/v1",
        "ftp://a.example",
        "file:///etc/passwd",
        "http://",
        "http:///v1",
        "http://user@a.example",
        "http://user:secret@a.example",
        "http://a.example/v1?key=1",
        "http://a.example/v1?",
        "http://a.example/#x",
        "http://a.example:0",
        "http://a.example:99999",
        "http://a.example:x",
        "http://a.example\\@b.example",
        "http://a.example /v1",
        "http://a.exa\nmple",
        "http://a.example/caf\xe9",
        "http://[::1",
        "http://" + "a" * 300,
        "http://a..example\xe9",
    ],
)
def test_an_odd_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Origin.parse(base_url)
    assert "secret" not in str(caught.value)
