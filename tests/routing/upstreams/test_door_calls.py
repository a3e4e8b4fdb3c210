"""One call that goes well, in every shape HTTP/1.1 gives it."""

import pytest

from routing.upstreams.door import Door
from tests.routing.upstreams.conftest import Caller, Serve
from tests.routing.upstreams.raw_upstream import Peer, always, answer, chunk, chunked_head, once


def test_the_request_on_the_wire_is_what_was_asked_for(serve: Serve, call: Caller) -> None:
    upstream = serve(always(answer()))

    call(
        f"{upstream.url}/v1/",
        path="/chat?x=1",
        headers=[("Authorization", "Bearer s"), ("X-Title", "caf\xe9")],
        body=b'{"a":1}',
    )

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


def test_the_caller_may_ask_for_an_encoding(serve: Serve, call: Caller) -> None:
    upstream = serve(always(answer()))
    call(upstream, method="GET", body=b"", headers=[("accept-encoding", "gzip")])
    assert upstream.requests[0].count(b"ncoding") == 1
    assert b"Content-Length" not in upstream.requests[0]


def test_an_answer_has_status_headers_and_body(serve: Serve, call: Caller) -> None:
    upstream = serve(
        always(answer(b"slow down", "Retry-After: 3", "X-A: 1", "x-a: 2", "X-Empty:", status="429"))
    )
    reply = call(upstream)
    assert reply.status == 429
    assert reply.headers == {
        "content-length": "9",
        "retry-after": "3",
        "x-a": "1, 2",
        "x-empty": "",
    }
    assert reply.read_all() == b"slow down"
    assert reply.read_some() == b""
    assert reply.head_at >= reply.sent_at
    assert not reply.reused
    assert not reply.retried_fresh


def test_chunks_arrive_as_they_are_sent(serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(chunked_head() + chunk(b"one"))
        peer.read_request()
        peer.send(chunk(b"two") + b"0\r\nTrailer: 1\r\n\r\n")
        peer.wait_gone()

    upstream = serve(script)
    reply = call(upstream)
    assert reply.read_some() == b"one"
    assert reply.read_some(wait_s=0.01) is None
    connection = reply._connection
    assert connection is not None
    connection.sock.sendall(b"go on\r\n\r\n")
    assert reply.read_all() == b"two"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_body_without_length_ends_with_the_connection(
    version: str, serve: Serve, call: Caller
) -> None:
    upstream = serve(once(f"HTTP/{version} 200 OK\r\n\r\nto the end".encode()))
    assert call(upstream).read_all() == b"to the end"


def test_a_byte_at_a_time_is_as_good_as_a_whole(serve: Serve, call: Caller) -> None:
    whole = chunked_head("X-Name: value") + chunk(b"hello") + chunk(b" you") + b"0\r\n\r\n"

    def script(peer: Peer) -> None:
        peer.read_request()
        for byte in whole:
            peer.send(bytes([byte]))
        peer.wait_gone()

    reply = call(serve(script))
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
def test_some_answers_have_no_body(method: str, reply: bytes, serve: Serve, call: Caller) -> None:
    assert call(serve(always(reply)), method=method, body=b"").read_all() == b""


def test_interim_replies_are_skipped(serve: Serve, call: Caller) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
    reply = call(serve(always(interim + answer())))
    assert (reply.status, reply.read_all()) == (200, b"hi")
    assert "link" not in reply.headers


def test_a_header_that_comes_again_is_one_list(serve: Serve, call: Caller) -> None:
    given = ("X-One: a", "Via: 1.1 a", "x-one: b", "X-ONE: \u00fc")
    reply = call(serve(always(answer(b"hi", *given))))
    assert (reply.headers["x-one"], reply.headers["via"]) == ("a, b, \u00fc", "1.1 a")
    assert reply.read_all() == b"hi"


def test_a_redirect_is_an_answer_like_any_other(serve: Serve, call: Caller) -> None:
    elsewhere = serve(always(answer()))
    upstream = serve(always(answer(b"", f"Location: {elsewhere.url}/", status="307 Moved")))
    reply = call(upstream, headers=[("Authorization", "Bearer s")])
    assert reply.status == 307
    assert reply.read_all() == b""
    assert elsewhere.connections == 0


def test_the_environment_names_no_proxy(
    serve: Serve, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(always(answer(b"from the proxy")))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    assert call(serve(always(answer(b"direct")))).read_all() == b"direct"


def test_an_early_refusal_of_a_large_body_is_read(serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(10)
        peer.send(answer(b"too much", "Connection: close", status="413 Content Too Large"))

    reply = call(serve(script), body=b"x" * 200_000)
    assert reply.status == 413


def test_a_large_body_goes_out_whole(serve: Serve, call: Caller) -> None:
    upstream = serve(always(answer()))
    body = bytes(range(256)) * 20_000
    assert call(upstream, body=body).status == 200
    assert upstream.requests[0].endswith(body)


def test_a_reply_closes_itself_as_a_context(serve: Serve, door: Door, call: Caller) -> None:
    upstream = serve(always(answer()))
    with call(upstream) as reply:
        reply.read_all()
    assert call(upstream).reused
