"""What goes out, what is refused before a byte is sent (S4), and every shape of an answer."""

import pytest

from gateway.outbound.http_client import HttpClient, Origin
from tests.gateway.outbound.conftest import Caller, socket_of
from tests.gateway.outbound.raw_upstream import Peer, always, answer, chunk, chunked_head, turns


def test_the_request_on_the_wire_is_what_was_asked_for(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    headers = [("Authorization", "Bearer s"), ("X-Title", "caf\xe9")]
    call(f"{upstream.url}/v1/", path="/chat?x=1", headers=headers, body=b'{"a":1}')
    assert upstream.requests == [
        b"POST /v1/chat?x=1 HTTP/1.1\r\n"
        b"Host: 127.0.0.1:%d\r\n"
        b"Connection: keep-alive\r\n"
        b"Content-Length: 7\r\n"
        b"Authorization: Bearer s\r\n"
        b"X-Title: caf\xe9\r\n"
        b"Accept-Encoding: identity\r\n\r\n"
        b'{"a":1}' % upstream.port
    ]


def test_the_caller_may_ask_for_an_encoding(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    call(upstream, method="GET", body=b"", headers=[("accept-encoding", "gzip")])
    assert upstream.requests[0].count(b"ncoding") == 1
    assert b"Content-Length" not in upstream.requests[0]


def test_an_answer_has_status_headers_and_body(call: Caller) -> None:
    given = ("Retry-After: 3", "X-A: 1", "x-a: \xfc", "X-Empty:", "Via: 1.1 a", "X-A: 3")
    reply = call(call.serve(always(answer(b"slow down", *given, status="429"))))
    assert reply.status == 429
    headers = {"content-length": "9", "retry-after": "3", "x-empty": "", "via": "1.1 a"}
    assert reply.headers == {**headers, "x-a": "1, \xfc, 3"}
    assert (reply.read_all(), reply.read_some()) == (b"slow down", b"")
    assert reply.head_at >= reply.sent_at
    assert (reply.reused, reply.retried_fresh) == (False, False)


def test_chunks_arrive_as_they_are_sent(call: Caller) -> None:
    last = chunk(b"two") + b"0\r\nTrailer: 1\r\n\r\n"
    reply = call(call.serve(turns(chunked_head() + chunk(b"one"), last, Peer.wait_gone)))
    assert reply.read_some() == b"one"
    assert reply.read_some(wait_s=0.01) is None
    socket_of(reply).sendall(b"go on\r\n\r\n")
    assert reply.read_all() == b"two"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_body_without_length_ends_with_the_connection(version: str, call: Caller) -> None:
    upstream = call.serve(turns(f"HTTP/{version} 200 OK\r\n\r\nto the end".encode()))
    assert call(upstream).read_all() == b"to the end"


def test_a_byte_at_a_time_is_as_good_as_a_whole(call: Caller) -> None:
    whole = chunked_head("X-Name: value") + chunk(b"hello") + chunk(b" you") + b"0\r\n\r\n"

    def say(peer: Peer) -> None:
        for byte in whole:
            peer.send(bytes([byte]))

    reply = call(call.serve(turns(b"", say, Peer.wait_gone)))
    assert reply.headers["x-name"] == "value"
    assert reply.read_all() == b"hello you"


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"),
    ],
)
def test_some_answers_have_no_body(method: str, reply: bytes, call: Caller) -> None:
    assert call(call.serve(always(reply)), method=method, body=b"").read_all() == b""


def test_interim_replies_are_skipped(call: Caller) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
    reply = call(call.serve(always(interim + answer())))
    assert (reply.status, reply.read_all()) == (200, b"hi")
    assert "link" not in reply.headers


def test_a_redirect_is_an_answer_like_any_other(call: Caller) -> None:
    elsewhere = call.serve(always(answer()))
    upstream = call.serve(always(answer(b"", f"Location: {elsewhere.url}/", status="307 Moved")))
    reply = call(upstream, headers=[("Authorization", "Bearer s")])
    assert (reply.status, reply.read_all()) == (307, b"")
    assert elsewhere.connections == 0


def test_the_environment_names_no_proxy(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = call.serve(always(answer(b"from the proxy")))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    assert call(call.serve(always(answer(b"direct")))).read_all() == b"direct"


def test_an_early_refusal_of_a_large_body_is_read(call: Caller) -> None:
    refusal = answer(b"too much", "Connection: close", status="413 Content Too Large")
    upstream = call.serve(turns(lambda peer: peer.sock.recv(10), lambda peer: peer.send(refusal)))
    assert call(upstream, body=b"x" * 200_000).status == 413


def test_a_large_body_goes_out_whole(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    body = bytes(range(256)) * 20_000
    assert call(upstream, body=body).status == 200
    assert upstream.requests[0].endswith(body)


@pytest.mark.parametrize(
    "header",
    [
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
    ],
)
def test_a_header_that_bends_the_request_is_refused(header: tuple[str, str], call: Caller) -> None:
    upstream = call.serve(always(answer()))
    error = call.fails(ValueError, upstream, headers=[("X-Good", "1"), header])
    assert upstream.connections == 0
    assert "header" in str(error)
    assert "Evil: 1" not in str(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("path", value) for value in ("", "chat", "http://169.254.169.254/", "/a b", "/a#b")],
        *[("path", value) for value in ("/chat HTTP/1.1\r\nX: 1", "/models/../admin", "/..")],
        *[("path", value) for value in ("/caf\xe9", "/a\0")],
        *[("method", value) for value in ("", "GET /", "POST\r\n")],
    ],
)
def test_a_path_or_method_that_bends_the_request_is_refused(
    name: str, value: str, call: Caller
) -> None:
    upstream = call.serve(always(answer()))
    assert name in str(call.fails(ValueError, upstream, **{name: value}))
    assert upstream.connections == 0


def test_a_path_that_names_two_slashes_stays_on_the_host(call: Caller) -> None:
    upstream = call.serve(always(answer()))
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
        *["", "a.example/v1", "ftp://a.example", "file:///etc/passwd", "http://", "http:///v1"],
        *["http://user@a.example", "http://user:secret@a.example", "http://a.example/v1?key=1"],
        *["http://a.example/v1?", "http://a.example/#x", "http://a.example:0"],
        *["http://a.example:99999", "http://a.example:x", "http://a.example\\@b.example"],
        *["http://a.example /v1", "http://a.exa\nmple", "http://a.example/caf\xe9"],
        *["http://[::1", "http://" + "a" * 300, "http://a..example\xe9"],
    ],
)
def test_an_odd_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Origin.parse(base_url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["https://p:1", "http://u:p@p:1", "socks5://p", "http://p/x"])
def test_only_a_plain_http_proxy_is_taken(proxy: str) -> None:
    with pytest.raises(ValueError, match=r"proxy|base URL"):
        HttpClient(proxy=proxy)
