"""Counting a prompt's tokens where the upstream's own counter is no help."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from routing.catalogue.entries import EndpointEntry
from routing.formats.messages.format import MESSAGES
from routing.serving import process
from routing.serving.call import Call
from routing.serving.counting import input_tokens
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import call_to
from tests.routing.upstreams.raw_upstream import Peer, RawUpstream

ESTIMATE = 25


class Counter:
    """Answers every count with the same status and body."""

    def __init__(self) -> None:
        self.status, self.body = 200, b'{"input_tokens": 7}'

    def __call__(self, peer: Peer) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.sock.recv(65_536)
        peer.send(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (self.status, len(self.body), self.body)
        )


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def upstream(counter: Counter) -> Iterator[RawUpstream]:
    with RawUpstream(counter) as server:
        yield server


def at(base_url: str) -> EndpointEntry:
    target = endpoint(kind="anthropic")
    return replace(target, provider=replace(target.provider, base_url=base_url))


def call_at(target: EndpointEntry) -> Call:
    body = {"model": "acme/small", "messages": [{"role": "user", "content": "x" * 4 * ESTIMATE}]}
    chat = MESSAGES.parse(body, session_header=None, models_max=3)
    deadline = process.now() + 10
    return replace(call_to(target), format=MESSAGES, chat=chat, deadline=deadline)


@pytest.mark.parametrize(
    ("status", "body", "tokens"),
    [
        (200, b'{"input_tokens": 7}', 7),
        (200, b'{"input_tokens": 0}', 0),
        (200, b'{"input_tokens": -1}', ESTIMATE),
        (200, b'{"input_tokens": true}', ESTIMATE),
        (200, b'{"input_tokens": 1e99}', ESTIMATE),
        (200, b"[]", ESTIMATE),
        (200, b"<html>", ESTIMATE),
        (404, b"{}", ESTIMATE),
        (529, b'{"input_tokens": 7}', ESTIMATE),
    ],
)
def test_a_count_is_believed_only_where_it_is_one(
    counter: Counter, upstream: RawUpstream, status: int, body: bytes, tokens: int
) -> None:
    counter.status, counter.body = status, body

    assert input_tokens(call_at(at(f"http://127.0.0.1:{upstream.port}/v1"))) == tokens


def test_a_counter_that_is_not_there_is_replaced_by_the_estimator() -> None:
    assert input_tokens(call_at(at("http://127.0.0.1:1/v1"))) == ESTIMATE
