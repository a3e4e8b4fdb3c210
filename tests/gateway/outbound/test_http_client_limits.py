"""Whatever an upstream does, the call ends: limits of time and bytes, bad framing (U2, U5, U6)."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.outbound.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    Disconnected,
    FirstByteTimeout,
    IdleTimeout,
    MalformedReply,
    OutboundError,
)
from tests.gateway.outbound.conftest import Caller, read_in_pieces, socket_of
from tests.gateway.outbound.raw_upstream import (
    Peer,
    answer,
    chunk,
    chunked_head,
    endless,
    lasting,
    turns,
)

HEAD = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
WORD = chunked_head() + chunk(b"word")
SHORT = {"first_byte_s": 0.2}
QUICK = {"first_byte_s": 10, "deadline_s": 0.3}
Script = Callable[[Peer], None]


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.monotonic()

    def is_about(self, limit_s: float) -> bool:
        """At least the limit, and a generous bound above it for busy machines."""
        return limit_s - 0.02 <= time.monotonic() - self._started < limit_s + 2


def build_drip(start: bytes, drop: bytes) -> Script:
    return turns(start, lambda peer: peer.drip(drop, every_s=0.02))


SLOW_HEADS: dict[str, tuple[Script, dict[str, Any], type[OutboundError]]] = {
    "silence": (lasting(), SHORT, FirstByteTimeout),
    "half a head": (lasting(HEAD, b"Content-"), SHORT, FirstByteTimeout),
    "an interim reply": (lasting(CONTINUE), SHORT, FirstByteTimeout),
    "a drip": (build_drip(HEAD + b"X: ", b"x"), SHORT, FirstByteTimeout),
    "silence up to the deadline": (lasting(), QUICK, DeadlineExceeded),
    "a large body unread": (Peer.hold, {**QUICK, "body": bytes(30_000_000)}, DeadlineExceeded),
}


@pytest.mark.parametrize(("script", "limits", "kind"), SLOW_HEADS.values(), ids=SLOW_HEADS)
def test_a_head_that_does_not_complete_costs_the_limit(
    script: Script, limits: dict[str, Any], kind: type[OutboundError], call: Caller
) -> None:
    upstream, watch = call.serve(script), Stopwatch()
    error = call.fails(kind, upstream, **limits)
    assert watch.is_about(limits.get("deadline_s", 0.2))
    assert error.phase == "head"
    assert "body" in limits or upstream.gone.wait(60)


def test_what_came_of_a_head_is_counted(call: Caller) -> None:
    assert call.fails(FirstByteTimeout, call.serve(lasting(CONTINUE)), **SHORT).bytes_received == 25


@pytest.mark.parametrize("word", [b"", b"word"])
def test_silence_after_the_head_or_in_mid_body_costs_the_idle_limit(
    word: bytes, call: Caller
) -> None:
    upstream = call.serve(lasting(chunked_head(), chunk(word) if word else b""))
    reply = call(upstream, idle_s=0.2)
    if word:
        assert reply.read_some() == word
    watch = Stopwatch()
    for _ in range(2):
        with pytest.raises(IdleTimeout) as caught:
            reply.read_some()
    assert watch.is_about(0.2)
    assert caught.value.phase == "body"
    assert upstream.gone.wait(60)


def test_a_drip_is_ended_by_the_deadline_alone(call: Caller) -> None:
    watch = Stopwatch()
    reply = call(call.serve(build_drip(chunked_head(), chunk(b"."))), idle_s=5, deadline_s=0.3)
    with pytest.raises(DeadlineExceeded):
        reply.read_all()
    assert watch.is_about(0.3)


def test_a_tick_is_no_byte_and_does_not_move_the_idle_clock(call: Caller) -> None:
    reply = call(call.serve(lasting(chunked_head())), idle_s=0.3)
    watch = Stopwatch()
    assert [reply.read_some(wait_s=0.05), reply.read_some(wait_s=0.05)] == [None, None]
    with pytest.raises(IdleTimeout):
        reply.read_some(wait_s=10)
    assert watch.is_about(0.3)


def test_the_idle_clock_stands_still_while_the_client_is_blocked(call: Caller) -> None:
    reply = call(call.serve(lasting(chunked_head())), idle_s=0.2)
    reply.pause_idle()
    assert reply.read_some(wait_s=0.3) is None
    reply.resume_idle()
    assert reply.read_some(wait_s=0.05) is None
    with pytest.raises(IdleTimeout):
        reply.read_some()


def test_what_came_while_the_reader_was_away_is_not_lost(call: Caller) -> None:
    def say(peer: Peer) -> None:
        peer.sock.recv(1)
        peer.send(chunk(b"word"))

    reply = call(call.serve(turns(chunked_head(), say, Peer.wait_gone)), idle_s=0.0)
    sock = socket_of(reply)
    sock.settimeout(10)
    sock.send(b"!")
    sock.recv(1, socket.MSG_PEEK)
    assert reply.read_some() == b"word"


def size_head(*lengths: str, more: str = "") -> bytes:
    fields = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    return HEAD + f"{fields}{more}\r\n".encode()


BAD_HEADS = {
    "endless headers": endless(HEAD, b"X-Header: value\r\n" * 500),
    "one endless header": endless(HEAD + b"X: ", b"x" * 8000),
    "one endless header name": endless(HEAD, b"x" * 8000),
    "an endless status line": endless(b"HTTP/1.1 200 ", b"OK OK OK" * 500),
    "endless interim replies": endless(b"", CONTINUE * 500),
    "endless hints": endless(b"", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" * 500),
    "html": lasting(b"<html>"),
    "http 0.9 text": lasting(b"hello there\r\n"),
    "bad version": lasting(b"HTTP/9.9 200 OK\r\n\r\n"),
    "status 1000": lasting(b"HTTP/1.1 1000 OK\r\n\r\n"),
    "status 099": lasting(b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    "upgrade": lasting(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "bare 101": lasting(b"HTTP/1.1 101 Switching\r\n\r\n"),
    "negative length": lasting(size_head("-1")),
    "no number": lasting(size_head("ten")),
    "empty length": lasting(size_head("")),
    "two lengths": lasting(size_head("1", "2"), b"ab"),
    "huge length": lasting(size_head("99999999999999999999999")),
    "length and chunks": lasting(
        size_head("1", more="Transfer-Encoding: chunked\r\n"), b"0\r\n\r\n"
    ),
    "packed transfer": lasting(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "folded header": lasting(HEAD + b"X: a\r\n b\r\n\r\n"),
    "NUL in a header": lasting(HEAD + b"X: a\0b\r\n\r\n"),
}


@pytest.mark.parametrize("script", BAD_HEADS.values(), ids=BAD_HEADS)
def test_a_head_that_is_endless_or_no_http_is_malformed(script: Script, call: Caller) -> None:
    error = call.fails(MalformedReply, call.serve(script))
    assert error.phase == "head"
    assert error.bytes_received < 300_000


def test_a_head_just_over_a_small_cap_is_refused(call: Caller) -> None:
    upstream = call.serve(lasting(answer(b"hi", "X: " + "x" * 2000)))
    call.fails(MalformedReply, upstream, head_bytes_max=2000)


BAD_BODIES = {
    "endless trailers": (endless(WORD + b"0\r\n", b"T: 1\r\n" * 500), MalformedReply),
    "one endless trailer": (endless(WORD + b"0\r\nT: ", b"x" * 8000), MalformedReply),
    "an endless chunk extension": (endless(WORD + b"5;", b"x" * 8000), MalformedReply),
    "endless zeros of a size": (endless(WORD + b"0", b"0" * 8000), MalformedReply),
    "a size of letters": (lasting(WORD, b"zz\r\n"), MalformedReply),
    "a negative size": (lasting(WORD, b"-1\r\n"), MalformedReply),
    "a huge size": (lasting(WORD, b"fffffffffffffffff\r\n"), MalformedReply),
    "more than the size": (lasting(WORD, b"2\r\nabc"), MalformedReply),
    "announced over the cap": (lasting(size_head("10000000000"), b"x"), BodyTooLarge),
    "short of its length": (turns(size_head("10") + b"short"), Disconnected),
    "cut in a chunk": (turns(chunked_head() + b"a\r\nshort"), Disconnected),
    "cut between chunks": (turns(WORD), Disconnected),
    "cut before the last line": (turns(WORD + b"0\r\n"), Disconnected),
}


@pytest.mark.parametrize(("script", "kind"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_lies_or_breaks_off_is_named(
    script: Script, kind: type[OutboundError], call: Caller
) -> None:
    with pytest.raises(kind) as caught:
        call(call.serve(script)).read_all()
    assert caught.value.bytes_received < 1_000_000


@pytest.mark.parametrize(
    ("head", "more"),
    [(HEAD + b"\r\n", b"x" * 1000), (chunked_head(), chunk(b"x" * 1000))],
    ids=["no length", "chunks"],
)
def test_an_endless_body_is_cut_at_its_cap(head: bytes, more: bytes, call: Caller) -> None:
    reply = call(call.serve(endless(head, more)), body_bytes_max=100_000)
    seen: list[bytes] = []
    with pytest.raises(BodyTooLarge) as caught:
        seen.extend(read_in_pieces(reply))
    assert len(b"".join(seen)) <= 100_000
    assert caught.value.bytes_received < 1_000_000
    assert isinstance(caught.value, MalformedReply)


def test_a_body_of_exactly_the_cap_is_taken(call: Caller) -> None:
    upstream = call.serve(lasting(answer(b"x" * 1000)))
    assert len(call(upstream, body_bytes_max=1000).read_all()) == 1000
    with pytest.raises(BodyTooLarge):
        call(upstream, body_bytes_max=999).read_all()


def test_one_byte_chunks_are_honest_framing(call: Caller) -> None:
    upstream = call.serve(lasting(chunked_head() + chunk(b"x") * 50_000 + b"0\r\n\r\n"))
    assert len(call(upstream, head_bytes_max=1000).read_all()) == 50_000


def test_a_disconnect_says_where_and_after_how_much(call: Caller) -> None:
    sent = size_head("10") + b"short"
    with pytest.raises(Disconnected) as caught:
        call(call.serve(turns(sent))).read_all()
    assert (caught.value.phase, caught.value.bytes_received) == ("body", len(sent))
    assert call.fails(Disconnected, call.serve(turns(HEAD + b"Content-"))).phase == "head"
    error = call.fails(Disconnected, upstream := call.serve(turns(Peer.read_request, Peer.reset)))
    assert (error.phase, error.bytes_received, upstream.connections) == ("head", 0, 1)


def test_a_reset_in_mid_body_is_a_disconnect(call: Caller) -> None:
    reply = call(call.serve(turns(WORD, lambda peer: peer.sock.recv(1), Peer.reset)))
    assert reply.read_some() == b"word"
    socket_of(reply).sendall(b"!")
    with pytest.raises(Disconnected):
        reply.read_some()


def test_errors_hold_no_header_values_and_no_bodies(call: Caller) -> None:
    secret = "canary-7c1f"
    sent = f"HTTP/1.1 200 OK\r\nX-{secret}: {secret}\r\n{secret}\r\n\r\n{secret}".encode()
    headers = [("Authorization", secret)]
    error = call.fails(
        MalformedReply, call.serve(turns(sent)), headers=headers, body=secret.encode()
    )
    assert secret not in str(error)
    assert secret not in repr(error.__cause__)
