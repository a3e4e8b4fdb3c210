"""Time and byte limits: whatever an upstream does, the call ends (U2, U6)."""

import socket
import time

import pytest

from routing.upstreams.door_errors import (
    BodyTooLarge,
    DeadlineExceeded,
    FirstByteTimeout,
    IdleTimeout,
    MalformedReply,
)
from tests.routing.upstreams.conftest import Caller, Serve, read_in_pieces, socket_of
from tests.routing.upstreams.raw_upstream import (
    Peer,
    answer,
    chunk,
    chunked_head,
    endless,
    lasting,
    turns,
)

HEAD = b"HTTP/1.1 200 OK\r\n"


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.monotonic()

    def is_about(self, limit_s: float) -> bool:
        """At least the limit, and a generous bound above it for busy machines."""
        return limit_s - 0.02 <= time.monotonic() - self._started < limit_s + 2


@pytest.mark.parametrize("sent", [b"", HEAD + b"Content-", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_head_that_does_not_complete_costs_the_first_byte_limit(
    sent: bytes, serve: Serve, call: Caller
) -> None:
    upstream, watch = serve(lasting(sent)), Stopwatch()
    error = call.fails(FirstByteTimeout, upstream, first_byte_s=0.2)
    assert watch.is_about(0.2)
    assert (error.phase, error.bytes_received) == ("head", len(sent))
    assert upstream.gone.wait(5)


def test_a_dripping_head_gets_no_more_time(serve: Serve, call: Caller) -> None:
    upstream = serve(turns(HEAD + b"X: ", lambda peer: peer.drip(b"x", every_s=0.02)))
    watch = Stopwatch()
    call.fails(FirstByteTimeout, upstream, first_byte_s=0.2)
    assert watch.is_about(0.2)


@pytest.mark.parametrize("word", [b"", b"word"])
def test_silence_after_the_head_or_in_mid_body_costs_the_idle_limit(
    word: bytes, serve: Serve, call: Caller
) -> None:
    upstream = serve(lasting(chunked_head(), chunk(word) if word else b""))
    reply = call(upstream, idle_s=0.2)
    if word:
        assert reply.read_some() == word
    watch = Stopwatch()
    for _ in range(2):
        with pytest.raises(IdleTimeout) as caught:
            reply.read_some()
    assert watch.is_about(0.2)
    assert caught.value.phase == "body"
    assert upstream.gone.wait(5)


def test_a_drip_is_ended_by_the_deadline_alone(serve: Serve, call: Caller) -> None:
    upstream = serve(turns(chunked_head(), lambda peer: peer.drip(chunk(b"."), every_s=0.02)))
    watch = Stopwatch()
    reply = call(upstream, idle_s=5, deadline_s=0.3)
    with pytest.raises(DeadlineExceeded):
        reply.read_all()
    assert watch.is_about(0.3)


def test_the_deadline_runs_through_every_phase(serve: Serve, call: Caller) -> None:
    watch = Stopwatch()
    error = call.fails(DeadlineExceeded, serve(lasting()), first_byte_s=10, deadline_s=0.2)
    assert watch.is_about(0.2)
    assert error.phase == "head"


def test_a_peer_that_does_not_read_a_large_body_meets_the_deadline(
    serve: Serve, call: Caller
) -> None:
    watch = Stopwatch()
    call.fails(DeadlineExceeded, serve(Peer.hold), body=bytes(30_000_000), deadline_s=0.3)
    assert watch.is_about(0.3)


def test_a_tick_is_no_byte_and_does_not_move_the_idle_clock(serve: Serve, call: Caller) -> None:
    reply = call(serve(lasting(chunked_head())), idle_s=0.3)
    watch = Stopwatch()
    assert [reply.read_some(wait_s=0.05), reply.read_some(wait_s=0.05)] == [None, None]
    with pytest.raises(IdleTimeout):
        reply.read_some(wait_s=10)
    assert watch.is_about(0.3)


def test_the_idle_clock_stands_still_while_the_client_is_blocked(
    serve: Serve, call: Caller
) -> None:
    reply = call(serve(lasting(chunked_head())), idle_s=0.2)
    reply.pause_idle()
    assert reply.read_some(wait_s=0.3) is None
    reply.resume_idle()
    assert reply.read_some(wait_s=0.05) is None
    with pytest.raises(IdleTimeout):
        reply.read_some()


def test_what_came_while_the_reader_was_away_is_not_lost(serve: Serve, call: Caller) -> None:
    def say(peer: Peer) -> None:
        peer.sock.recv(1)
        peer.send(chunk(b"word"))

    reply = call(serve(turns(chunked_head(), say, Peer.wait_gone)), idle_s=0.0)
    sock = socket_of(reply)
    sock.settimeout(10)
    sock.send(b"!")
    sock.recv(1, socket.MSG_PEEK)
    assert reply.read_some() == b"word"


ENDLESS_HEADS = {
    "headers": (HEAD, b"X-Header: value\r\n"),
    "one header": (HEAD + b"X: ", b"xxxxxxxxxxxxxxxx"),
    "one header name": (HEAD, b"xxxxxxxxxxxxxxxx"),
    "status line": (b"HTTP/1.1 200 ", b"OK OK OK"),
    "interim replies": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim replies with headers": (b"", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"),
}


@pytest.mark.parametrize(("head", "more"), ENDLESS_HEADS.values(), ids=ENDLESS_HEADS)
def test_an_endless_head_is_cut_at_its_cap(
    head: bytes, more: bytes, serve: Serve, call: Caller
) -> None:
    error = call.fails(MalformedReply, serve(endless(head, more * 500)))
    assert error.bytes_received < 300_000


def test_a_head_just_over_a_small_cap_is_refused(serve: Serve, call: Caller) -> None:
    upstream = serve(lasting(answer(b"hi", "X: " + "x" * 2000)))
    call.fails(MalformedReply, upstream, head_bytes_max=2000)


ENDLESS_BODIES = {
    "no length": (HEAD + b"\r\n", b"x" * 1000),
    "chunks": (chunked_head(), chunk(b"x" * 1000)),
}


@pytest.mark.parametrize(("head", "more"), ENDLESS_BODIES.values(), ids=ENDLESS_BODIES)
def test_an_endless_body_is_cut_at_its_cap(
    head: bytes, more: bytes, serve: Serve, call: Caller
) -> None:
    reply = call(serve(endless(head, more)), body_bytes_max=100_000)
    seen: list[bytes] = []
    with pytest.raises(BodyTooLarge) as caught:
        seen.extend(read_in_pieces(reply))
    assert len(b"".join(seen)) <= 100_000
    assert caught.value.bytes_received < 1_000_000
    assert isinstance(caught.value, MalformedReply)


def test_a_body_announced_over_the_cap_is_not_read(serve: Serve, call: Caller) -> None:
    reply = call(serve(lasting(HEAD, b"Content-Length: 10000000000\r\n\r\nx")))
    assert reply.status == 200
    with pytest.raises(BodyTooLarge):
        reply.read_all()


def test_a_body_of_exactly_the_cap_is_taken(serve: Serve, call: Caller) -> None:
    upstream = serve(lasting(answer(b"x" * 1000)))
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
    reply = call(serve(endless(chunked_head() + chunk(b"word") + start, more * 500)))
    with pytest.raises(MalformedReply) as caught:
        reply.read_all()
    assert caught.value.bytes_received < 1_000_000


def test_one_byte_chunks_are_honest_framing(serve: Serve, call: Caller) -> None:
    upstream = serve(lasting(chunked_head() + chunk(b"x") * 50_000 + b"0\r\n\r\n"))
    assert len(call(upstream, head_bytes_max=1000).read_all()) == 50_000
