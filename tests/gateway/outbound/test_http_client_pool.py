"""Kept connections: used again when sound, dropped when not, and never shared."""

import math
import os
import socket
import threading
from typing import Any

import pytest

from gateway.outbound.errors import Aborted, Disconnected, FirstByteTimeout, OutboundError
from gateway.outbound.http_client import AbortHandle, HttpClient, Limits, Origin, Reply
from tests.gateway.outbound.conftest import Caller, Serve, socket_of
from tests.gateway.outbound.raw_upstream import (
    PATIENCE_S,
    Peer,
    always,
    answer,
    chunk,
    chunked_head,
    turns,
)

WORD = chunked_head() + chunk(b"word")


def _finish(reply: Reply) -> bytes:
    with reply:
        return reply.read_all()


def test_a_whole_answer_leaves_its_connection_for_the_next(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    for turn in range(5):
        reply = call(f"{upstream.url}/{turn}")
        assert reply.reused == (turn > 0)
        assert _finish(reply) == b"hi"
    assert upstream.connections == 1


def test_a_connection_is_never_shared_by_two_calls(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    first, second = call(upstream), call(upstream)
    assert upstream.connections == 2
    assert (_finish(first), _finish(second)) == (b"hi", b"hi")


NOT_TO_BE_KEPT = {
    "asked to close": answer(b"hi", "Connection: close"),
    "http 1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "bytes behind the body": answer(b"hi") + b"HTTP/1.1 200 OK\r\n",
    "junk behind the body": answer(b"hi") + b"junk",
    "bytes behind the chunks": chunked_head() + chunk(b"hi") + b"0\r\n\r\nmore",
    "junk behind no body": b"HTTP/1.1 204 No Content\r\n\r\njunk",
}


@pytest.mark.parametrize("reply", NOT_TO_BE_KEPT.values(), ids=NOT_TO_BE_KEPT)
def test_some_connections_are_not_kept(reply: bytes, call: Caller) -> None:
    upstream = call.serve(always(reply))
    for _ in range(2):
        answered = call(upstream)
        assert _finish(answered) in (b"hi", b"")
        assert not answered.reused
        assert not answered.retried_fresh
    assert upstream.connections == 2


def test_an_unread_body_costs_the_connection(call: Caller) -> None:
    upstream = call.serve(turns(WORD, Peer.wait_gone))
    reply = call(upstream)
    assert reply.read_some() == b"word"
    reply.close()
    reply.close()
    assert upstream.gone.wait(PATIENCE_S)
    with pytest.raises(Aborted):
        reply.read_some()
    assert not call(upstream).reused


@pytest.mark.parametrize("way", ["closed", "spoke"])
def test_what_happened_to_an_idle_connection_is_noticed_before_use(way: str, call: Caller) -> None:
    finished = threading.Event()

    def go_on(peer: Peer) -> None:
        finished.wait(PATIENCE_S)
        if way == "spoke":
            peer.send(answer(b"uncalled for"))
            peer.wait_gone()

    upstream = call.serve(turns(answer(), go_on))
    reply = call(upstream)
    sock = socket_of(reply)
    _finish(reply)
    finished.set()
    sock.settimeout(PATIENCE_S)
    sock.recv(1, socket.MSG_PEEK)
    again = call(upstream)
    assert (again.reused, again.retried_fresh) == (False, False)
    assert _finish(again) == b"hi"
    assert upstream.connections == 2


@pytest.mark.parametrize("end", [[], [Peer.reset]], ids=["close", "reset"])
def test_a_kept_connection_that_dies_is_replaced_once(end: list[Any], call: Caller) -> None:
    def script(peer: Peer) -> None:
        first = [answer(), Peer.read_request, *end]
        turns(*(first if peer.number == 1 else [answer(b"fresh")]))(peer)

    upstream = call.serve(script)
    _finish(call(upstream))
    reply = call(upstream, body=b"again")
    assert (reply.reused, reply.retried_fresh) == (False, True)
    assert _finish(reply) == b"fresh"
    assert [request[-5:] for request in upstream.requests[1:]] == [b"again", b"again"]


@pytest.mark.parametrize(
    ("steps", "kind", "connections"),
    [
        # The replacement gets no second chance.
        ([], Disconnected, 2),
        # Nothing is sent twice after a byte of the answer, or because it is slow.
        ([b"H"], Disconnected, 1),
        ([b"", Peer.wait_gone], FirstByteTimeout, 1),
    ],
)
def test_a_call_is_sent_again_once_and_only_where_nothing_was_answered(
    steps: list[Any], kind: type[OutboundError], connections: int, call: Caller
) -> None:
    def script(peer: Peer) -> None:
        turns(*([answer(), *(steps or [b""])] if peer.number == 1 else [b""]))(peer)

    upstream = call.serve(script)
    _finish(call(upstream))
    call.fails(kind, upstream, first_byte_s=0.1 if b"" in steps else 10)
    assert upstream.connections == connections


def test_the_newest_connection_is_used_first_and_few_are_kept(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    small = call.through(HttpClient(pool_size_per_origin=2))
    replies = [small(upstream) for _ in range(3)]
    socks = [socket_of(reply) for reply in replies]
    for reply in replies:
        _finish(reply)
    assert [sock.fileno() >= 0 for sock in socks] == [True, True, False]
    assert socket_of(small(upstream)) is socks[1]


def test_an_old_connection_is_not_used_again(call: Caller) -> None:
    upstream, other = call.serve(always(answer())), call.serve(always(answer()))
    now = [0.0]
    aging = call.through(HttpClient(idle_keep_s=30, clock=lambda: now[0]))
    reply = aging(upstream, deadline_s=1e9)
    sock = socket_of(reply)
    _finish(reply)
    now[0] = 29.0
    again = aging(upstream, deadline_s=1e9)
    assert socket_of(again) is sock
    _finish(again)
    now[0] = 60.0
    # Putting any connection back sweeps out what is too old, for origins nobody calls any more too.
    _finish(aging(other, deadline_s=1e9))
    assert sock.fileno() < 0


def test_close_idle_closes_what_is_idle(client: HttpClient, call: Caller) -> None:
    upstream = call.serve(always(answer()))
    busy, idle = call(upstream), call(upstream)
    _finish(idle)
    client.close_idle()
    assert _finish(busy) == b"hi"
    assert upstream.connections == 2


def test_a_forked_child_leaves_its_parents_connections_alone(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    _finish(call(upstream))
    child = os.fork()
    if child == 0:
        os._exit(0 if not call(upstream).reused else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert call(upstream).reused


def test_an_abort_wakes_a_blocked_read_and_closes_the_upstream(call: Caller) -> None:
    upstream = call.serve(turns(WORD, Peer.wait_gone))
    reply = call(upstream)
    assert reply.read_some() == b"word"
    reading = threading.Timer(0.05, reply.abort)
    reading.start()
    with pytest.raises(Aborted) as caught:
        reply.read_some()
    assert caught.value.phase == "body"
    assert upstream.gone.wait(60)
    with pytest.raises(Aborted):
        reply.read_all()
    reading.join()


def test_an_abort_before_the_head_ends_the_call_on_a_new_and_a_kept_connection(
    call: Caller,
) -> None:
    for before in ([], [answer()]):
        handle = AbortHandle()
        abort = turns(Peer.read_request, lambda _: handle.abort(), Peer.wait_gone)  # noqa: B023
        upstream = call.serve(turns(*before, abort))
        for _ in before:
            _finish(call(upstream))
        assert call.fails(Aborted, upstream, abort_handle=handle).phase == "head"
        assert upstream.gone.wait(60)
        assert upstream.connections == 1
        call.fails(Aborted, upstream, abort_handle=handle)


def test_a_late_abort_does_not_touch_the_next_call(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    first = call(upstream)
    _finish(first)
    second = call(upstream)
    assert second.reused
    first.abort()
    assert _finish(second) == b"hi"
    assert call(upstream).reused


def test_an_aborted_reply_does_not_go_back_to_the_pool(call: Caller) -> None:
    upstream = call.serve(always(answer()))
    reply = call(upstream)
    reply.read_all()
    reply.abort()
    reply.close()
    assert not call(upstream).reused


def test_many_threads_share_one_door(serve: Serve, client: HttpClient) -> None:
    def script(peer: Peer) -> None:
        while (request := peer.read_request()) is not None:
            peer.send(answer(request[-8:]))

    origin = Origin.parse(serve(script).url)
    patient = Limits(PATIENCE_S, PATIENCE_S, PATIENCE_S)
    wrong: list[bytes] = []

    def work(name: int) -> None:
        for turn in range(40):
            body = b"%04d%04d" % (name, turn)
            options: Any = {"method": "POST", "path": "/", "headers": [], "body": body}
            if _finish(client.send(origin, limits=patient, deadline=math.inf, **options)) != body:
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wrong == []
