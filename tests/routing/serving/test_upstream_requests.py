"""What each kind of endpoint is sent for each kind of caller, and what is taken of a stream after
its end. Also which ends are an endpoint's outage, and counting a prompt's tokens."""

from typing import Any

import orjson
import pytest

from gateway.outbound import errors
from gateway.outbound.reply import Reply
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import WireRequest
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.metering.usage import OUTPUT_TOKENS_DEFAULT, Demand, Room, output_tokens_bound
from routing.serving.answer.token_counting import count_input_tokens
from routing.serving.attempts.upstream_call import (
    build_upstream_request,
    output_default,
    read_to_end,
)
from routing.serving.request import process
from routing.serving.request.context import RequestProgress
from routing.upstreams.anthropic.betas import parse_betas
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.failures import from_outbound_error
from tests.gateway.outbound.raw_upstream import RawUpstream
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import call_to
from tests.routing.serving.processes import Answers

MESSAGE = {"messages": [{"role": "user", "content": "Hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "chat": MESSAGE,
    "messages": {**MESSAGE, "odd": 1},
    "responses": {"input": "Hi"},
}
PATHS = {"openai": "/chat/completions", "anthropic": "/messages", "responses": "/responses"}


def call_in(given: CallerFormat, *endpoints: EndpointEntry, **more: Any) -> RequestProgress:
    body = {"model": "acme/small", **BODIES[given.name], **more}
    chat = given.parse(body, session_header=None, models_max=3)
    call = call_to(*endpoints)
    call.context = call.context._replace(format=given, chat=chat)
    return call


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("given", [CHAT, MESSAGES, RESPONSES], ids=lambda each: str(each.name))
def test_each_kind_is_spoken_to_in_its_own_format(given: CallerFormat, kind: str) -> None:
    target = endpoint(kind=kind)
    request = build_upstream_request(call_in(given, target), target)
    body = orjson.loads(request.body)
    assert (request.path, body["model"]) == (PATHS[kind], target.upstream_model)
    assert ("input" in body) is (kind == "responses")
    assert ("max_tokens" in body) is (kind == "anthropic")
    assert "odd" not in body


@pytest.mark.parametrize(
    ("context", "most", "prompt", "default"),
    [
        (200_000, 64_000, "Hi", 64_000),
        (200_000, None, "Hi", OUTPUT_TOKENS_DEFAULT),
        (2_000, 64_000, "Hi", 2_000),
        (500, None, "Hi", 500),
        (None, 99, "Hi", 99),
        (None, None, "Hi", OUTPUT_TOKENS_DEFAULT),
        # A long prompt leaves less room.
        (10_000, 10_000, "x" * 15_000, 5_000),
    ],
    ids=str,
)
def test_the_default_cap_is_the_endpoints_own_where_the_context_has_room(
    context: int | None, most: int | None, prompt: str, default: int
) -> None:
    target = endpoint(kind="anthropic", context_length=context, max_completion_tokens=most)
    messages = [{"role": "user", "content": prompt}]
    assert output_default(call_in(CHAT, target, messages=messages), target) == default


@pytest.mark.parametrize("context", [None, 10, 5_000, 200_000])
@pytest.mark.parametrize("most", [None, 1, 4_096, 300_000])
def test_the_hold_covers_the_default_cap(context: int | None, most: int | None) -> None:
    target = endpoint(kind="anthropic", context_length=context, max_completion_tokens=most)
    held = output_tokens_bound(Demand(1, 1, 0, 0, None), Room(context, most), output_cap=None)
    assert 0 < output_default(call_in(CHAT, target), target) <= held


@pytest.mark.parametrize("kind", PATHS)
def test_betas_reach_message_style_upstreams_alone(kind: str) -> None:
    target = endpoint(kind=kind)
    call = call_in(MESSAGES, target)
    call.context = call.context._replace(betas="one-2025, two-2025")
    told = dict(build_upstream_request(call, target).headers).get("anthropic-beta")
    assert told == ("one-2025,two-2025" if kind == "anthropic" else None)


def test_betas_of_caller_and_adapter_are_one_header() -> None:
    request = WireRequest("/messages", (("anthropic-beta", "a,b"), ("X", "y")), b"{}")
    told = ANTHROPIC.with_betas(request, "b, c,,")
    assert told.headers == (("X", "y"), ("anthropic-beta", "a,b,c"))


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        (["a-1,b-2", "b-2, c-3"], "a-1,b-2,c-3"),
        (["a b\tc", ""], "a,b,c"),
        (["", " ,, "], ""),
        (["a,\u00e9,b:c,d\x00", "e"], "a,e"),
        (["a" * 1_001, "b"], "b"),
    ],
)
def test_betas_of_both_headers_are_merged_and_checked(headers: list[str], names: str) -> None:
    assert parse_betas(headers) == names


def test_a_conversation_of_which_nothing_is_left_is_sent_all_the_same() -> None:
    target = endpoint(kind="anthropic")
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    messages = [{"role": "assistant", "content": [thinking]}]
    request = build_upstream_request(call_in(MESSAGES, target, messages=messages), target)
    nothing = [{"type": "text", "text": "."}]
    assert orjson.loads(request.body)["messages"] == [{"role": "user", "content": nothing}]


# --- Ends -----------------------------------------------------------------------------------------


class Said(Reply):
    """Has this to say at every look."""

    def __init__(self, what: bytes | Exception) -> None:
        self.what, self.reads = what, 0

    def read_some(self, wait_s: float | None = None) -> bytes:
        assert wait_s == 0
        self.reads += 1
        assert self.reads < 100, "it is read for ever"
        if isinstance(self.what, Exception):
            raise self.what
        return self.what


@pytest.mark.parametrize(
    ("what", "reads_max"),
    [(b"more", 4), (b"", 1), (errors.Disconnected("gone", phase="body"), 1)],
    ids=["a flood", "an end", "a break"],
)
def test_an_end_is_met_once_and_a_flood_after_it_left_alone(what: Any, reads_max: int) -> None:
    reply = Said(what)
    read_to_end(reply)
    assert 1 <= reply.reads <= reads_max


@pytest.mark.parametrize(
    ("kind", "outage"),
    [
        (errors.ConnectFailed, True),
        (errors.Disconnected, True),
        (errors.IdleTimeout, True),
        (errors.MalformedReply, True),
        (errors.BodyTooLarge, False),
    ],
)
def test_too_much_of_an_answer_is_no_outage(kind: Any, outage: bool) -> None:
    assert from_outbound_error(kind("what happened", phase="body")).outage is outage


# --- Counting where the upstream's own counter is no help -----------------------------------------


ESTIMATE = 25


def counted_at(port: int) -> int:
    acme = provider(kind="anthropic", base_url=f"http://127.0.0.1:{port}/v1")
    target = endpoint(provider=acme)
    body = {"model": "acme/small", "messages": [{"role": "user", "content": "x" * 4 * ESTIMATE}]}
    chat = MESSAGES.parse(body, session_header=None, models_max=3)
    call, until = call_to(target), process.now() + 10
    call.context = call.context._replace(format=MESSAGES, chat=chat, deadline=until)
    return count_input_tokens(call)


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
