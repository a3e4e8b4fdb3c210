"""Time and byte limits: whatever an upstream does, the call ends (U2, U6)."""

import socket
import time
from collections.abc import Callable

import pytest

from routing.upstreams.door_errors import (
    BodyTooLarge,
    DeadlineExceeded,
    DoorError,
    FirstByteTimeout,
    IdleTimeout,
    MalformedReply,
)
from tests.routing.upstreams.conftest import Caller, Serve
from tests.routing.upstreams.raw_upstream import Peer, answer, chunk, chunked_head


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.monotonic()

    def is_about(self, limit_s: float) -> bool:
        """At least the limit, and a generous bound above it for busy machines."""
        return limit_s - 0.02 <= time.monotonic() - self._started < limit_s + 2


def _after_request(*parts: bytes) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        peer.read_request()
        for part in parts:
            peer.send(part)
        peer.wait_gone()

    return script


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_a_head_that_does_not_complete_costs_the_first_byte_limit(
    sent: bytes, serve: Serve, call: Caller
) -> None:
    upstream = serve(_after_request(sent))
    watch = Stopwatch()
    with pytest.raises(FirstByteTimeout) as caught:
        call(upstream, first_byte_s=0.2)
    assert watch.is_about(0.2)
    assert (caught.value.phase, caught.value.bytes_received) == ("head", len(sent))
    assert upstream.gone.wait(5)


def test_a_dripping_head_gets_no_more_time(serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(b"HTTP/1.1 200 OK\r\nX: ")
        peer.drip(b"x", every_s=0.02)

    upstream = serve(script)
    watch = Stopwatch()
    with pytest.raises(FirstByteTimeout):
        call(upstream, first_byte_s=0.2)
    assert watch.is_about(0.2)


def test_headers_then_silence_costs_the_idle_limit(serve: Serve, call: Caller) -> None:
    upstream = serve(_after_request(chunked_head()))
    reply = call(upstream, idle_s=0.2)
    watch = Stopwatch()
    with pytest.raises(IdleTimeout) as caught:
        reply.read_all()
    assert watch.is_about(0.2)
    assert caught.value.phase == "body"
    assert upstream.gone.wait(5)


def test_silence_in_mid_body_costs_the_idle_limit(serve: Serve, call: Caller) -> None:
    reply = call(serve(_after_request(chunked_head(), chunk(b"word"))), idle_s=0.2)
    assert reply.read_some() == b"word"
    with pytest.raises(IdleTimeout):
        reply.read_some()
    with pytest.raises(IdleTimeout):
        reply.read_some()


def test_a_drip_is_ended_by_the_deadline_alone(serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(chunked_head())
        peer.drip(chunk(b"."), every_s=0.02)

    watch = Stopwatch()
    reply = call(serve(script), idle_s=5, deadline_s=0.3)
    with pytest.raises(DeadlineExceeded):
        reply.read_all()
    assert watch.is_about(0.3)


def test_the_deadline_runs_through_every_phase(serve: Serve, call: Caller) -> None:
    upstream = serve(_after_request(b""))
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded) as caught:
        call(upstream, first_byte_s=10, deadline_s=0.2)
    assert watch.is_about(0.2)
    assert caught.value.phase == "head"


def test_a_peer_that_does_not_read_a_large_body_meets_the_deadline(
    serve: Serve, call: Caller
) -> None:
    upstream = serve(Peer.hold)
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded):
        call(upstream, body=bytes(30_000_000), deadline_s=0.3)
    assert watch.is_about(0.3)


def test_a_tick_is_no_byte_and_does_not_move_the_idle_clock(serve: Serve, call: Caller) -> None:
    reply = call(serve(_after_request(chunked_head())), idle_s=0.3)
    watch = Stopwatch()
    assert [reply.read_some(wait_s=0.05), reply.read_some(wait_s=0.05)] == [None, None]
    with pytest.raises(IdleTimeout):
        reply.read_some(wait_s=10)
    assert watch.is_about(0.3)


def test_the_idle_clock_stands_still_while_the_client_is_blocked(
    serve: Serve, call: Caller
) -> None:
    reply = call(serve(_after_request(chunked_head())), idle_s=0.2)
    reply.pause_idle()
    assert reply.read_some(wait_s=0.3) is None
    reply.resume_idle()
    assert reply.read_some(wait_s=0.05) is None
    with pytest.raises(IdleTimeout):
        reply.read_some()


def test_what_came_while_the_reader_was_away_is_not_lost(serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(chunked_head())
        peer.sock.recv(1)
        peer.send(chunk(b"word"))
        peer.wait_gone()

    reply = call(serve(script), idle_s=0.0)
    connection = reply._connection
    assert connection is not None
    connection.sock.settimeout(10)
    connection.sock.send(b"!")
    connection.sock.recv(1, socket.MSG_PEEK)
    assert reply.read_some() == b"word"


ENDLESS_HEADS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n"),
    "one header": (b"HTTP/1.1 200 OK\r\nX: ", b"xxxxxxxxxxxxxxxx"),
    "one header name": (b"HTTP/1.1 200 OK\r\n", b"xxxxxxxxxxxxxxxx"),
    "status line": (b"HTTP/1.1 200 ", b"OK OK OK"),
    "interim replies": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim replies with headers": (b"", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"),
}


@pytest.mark.parametrize(("head", "more"), ENDLESS_HEADS.values(), ids=ENDLESS_HEADS)
def test_an_endless_head_is_cut_at_its_cap(
    head: bytes, more: bytes, serve: Serve, call: Caller
) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(head)
        peer.send_until_gone(more * 500)

    with pytest.raises(MalformedReply) as caught:
        call(serve(script))
    assert caught.value.bytes_received < 300_000


def test_a_head_just_over_a_small_cap_is_refused(serve: Serve, call: Caller) -> None:
    upstream = serve(_after_request(answer(b"hi", "X: " + "x" * 2000)))
    with pytest.raises(MalformedReply):
        call(upstream, head_bytes_max=2000)


ENDLESS_BODIES = {
    "no length": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
    "chunks": (chunked_head(), chunk(b"x" * 1000)),
}


@pytest.mark.parametrize(("head", "more"), ENDLESS_BODIES.values(), ids=ENDLESS_BODIES)
def test_an_endless_body_is_cut_at_its_cap(
    head: bytes, more: bytes, serve: Serve, call: Caller
) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(head)
        peer.send_until_gone(more)

    reply = call(serve(script), body_bytes_max=100_000)
    seen: list[bytes] = []
    with pytest.raises(BodyTooLarge) as caught:
        seen.extend(iter(lambda: reply.read_some() or b"", b""))
    assert len(b"".join(seen)) <= 100_000
    assert caught.value.bytes_received < 1_000_000
    assert isinstance(caught.value, MalformedReply)


def test_a_body_announced_over_the_cap_is_not_read(serve: Serve, call: Caller) -> None:
    reply = call(serve(_after_request(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\nx")))
    assert reply.status == 200
    with pytest.raises(BodyTooLarge):
        reply.read_all()


def test_a_body_of_exactly_the_cap_is_taken(serve: Serve, call: Caller) -> None:
    upstream = serve(_after_request(answer(b"x" * 1000)))
    assert len(call(upstream, body_bytes_max=1000).read_all()) == 1000
    with pytest.raises(BodyTooLarge):
        call(upstream, body_bytes_max=999).read_all()


ENDLESS_FRAMING = {
    "trailers": (b"0\r\n", b"T: 1\r\n"),
    "one trailer": (b"0\r\nT: ", b"x" * 16),
    "chunk extension": (b"5;", b"x" * 16),
    "chunk size zeros": (b"0", b"0" * 16),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS_FRAMING.values(), ids=ENDLESS_FRAMING)
def test_endless_framing_is_cut(start: bytes, more: bytes, serve: Serve, call: Caller) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(chunked_head() + chunk(b"word") + start)
        peer.send_until_gone(more * 500)

    reply = call(serve(script))
    with pytest.raises(DoorError) as caught:
        reply.read_all()
    assert isinstance(caught.value, MalformedReply)
    assert caught.value.bytes_received < 1_000_000


def test_one_byte_chunks_are_honest_framing(serve: Serve, call: Caller) -> None:
    upstream = serve(_after_request(chunked_head() + chunk(b"x") * 50_000 + b"0\r\n\r\n"))
    assert len(call(upstream, head_bytes_max=1000).read_all()) == 50_000
