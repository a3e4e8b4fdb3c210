"""Counting a prompt's tokens where the upstream's own counter is no help."""

from dataclasses import replace

import pytest

from routing.formats.messages.format import MESSAGES
from routing.serving import process
from routing.serving.counting import input_tokens
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import call_to
from tests.routing.serving.processes import Answers
from tests.routing.upstreams.raw_upstream import RawUpstream

ESTIMATE = 25


def counted_at(port: int) -> int:
    acme = provider(kind="anthropic", base_url=f"http://127.0.0.1:{port}/v1")
    target = endpoint(provider=acme)
    body = {"model": "acme/small", "messages": [{"role": "user", "content": "x" * 4 * ESTIMATE}]}
    chat = MESSAGES.parse(body, session_header=None, models_max=3)
    call = replace(call_to(target), format=MESSAGES, chat=chat, deadline=process.now() + 10)
    return input_tokens(call)


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
def test_a_count_is_believed_only_where_it_is_one(status: int, body: bytes, tokens: int) -> None:
    with RawUpstream(Answers(body, status)) as upstream:
        assert counted_at(upstream.port) == tokens


def test_a_counter_that_is_not_there_is_replaced_by_the_estimator() -> None:
    assert counted_at(1) == ESTIMATE
