"""What each kind of endpoint is sent for each kind of caller."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from routing.catalogue.entries import EndpointEntry
from routing.exchange import WireRequest
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.metering.estimate import OUTPUT_TOKENS_DEFAULT, Demand, Room, output_tokens_bound
from routing.serving.call import Call
from routing.serving.upstream_call import (
    beta_names,
    output_default,
    request_for,
    with_betas,
)
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import call_to

BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "messages": {"messages": [{"role": "user", "content": "Hi"}], "odd": 1},
    "responses": {"input": "Hi"},
}
PATHS = {"openai": "/chat/completions", "anthropic": "/messages", "responses": "/responses"}


def call_in(given: CallerFormat, *endpoints: EndpointEntry, **more: Any) -> Call:
    body = {"model": "acme/small", **BODIES[given.name], **more}
    chat = given.parse(body, session_header=None, models_max=3)
    return replace(call_to(*endpoints), format=given, chat=chat)


def sent(request: WireRequest) -> Any:
    return orjson.loads(request.body)


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("given", [CHAT, MESSAGES, RESPONSES], ids=lambda each: str(each.name))
def test_each_kind_is_spoken_to_in_its_own_format(given: CallerFormat, kind: str) -> None:
    target = endpoint(kind=kind)

    request = request_for(call_in(given, target), target)

    assert request.path == PATHS[kind]
    body = sent(request)
    assert body["model"] == target.upstream_model
    assert ("input" in body) is (kind == "responses")
    assert ("max_tokens" in body) is (kind == "anthropic")
    assert "odd" not in body


def test_the_default_cap_is_the_endpoints_own_where_the_context_has_room() -> None:
    def default(**facts: Any) -> int:
        unsaid = {"context_length": None, "max_completion_tokens": None}
        target = endpoint(kind="anthropic", **unsaid | facts)
        return output_default(call_in(MESSAGES, target), target)

    assert default(context_length=200_000, max_completion_tokens=64_000) == 64_000
    assert default(context_length=200_000) == OUTPUT_TOKENS_DEFAULT
    assert default(context_length=2_000, max_completion_tokens=64_000) == 2_000
    assert default(context_length=500) == 500
    assert default(max_completion_tokens=99) == 99
    assert default() == OUTPUT_TOKENS_DEFAULT


def test_a_long_prompt_leaves_less_room() -> None:
    target = endpoint(kind="anthropic", context_length=10_000, max_completion_tokens=10_000)
    messages = [{"role": "user", "content": "x" * 15_000}]

    assert output_default(call_in(CHAT, target, messages=messages), target) == 5_000


@pytest.mark.parametrize("context", [None, 10, 5_000, 200_000])
@pytest.mark.parametrize("most", [None, 1, 4_096, 300_000])
def test_the_hold_covers_the_default_cap(context: int | None, most: int | None) -> None:
    target = endpoint(kind="anthropic", context_length=context, max_completion_tokens=most)
    held = output_tokens_bound(Demand(1, 1, 0, 0, None), Room(context, most), output_cap=None)

    assert 0 < output_default(call_in(CHAT, target), target) <= held


@pytest.mark.parametrize("kind", PATHS)
def test_betas_reach_message_style_upstreams_alone(kind: str) -> None:
    target = endpoint(kind=kind)
    call = replace(call_in(MESSAGES, target), betas="one-2025, two-2025")

    headers = dict(request_for(call, target).headers)

    told = "one-2025,two-2025" if kind == "anthropic" else None
    assert headers.get("anthropic-beta") == told


def test_betas_of_caller_and_adapter_are_one_header() -> None:
    request = WireRequest("/messages", (("anthropic-beta", "a,b"), ("X", "y")), b"{}")

    told = with_betas(request, "b, c,,")

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
    assert beta_names(headers) == names


def test_a_conversation_of_which_nothing_is_left_is_sent_all_the_same() -> None:
    target = endpoint(kind="anthropic")
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    messages = [{"role": "assistant", "content": [thinking]}]

    body = sent(request_for(call_in(MESSAGES, target, messages=messages), target))

    nothing = [{"type": "text", "text": "."}]
    assert body["messages"] == [{"role": "user", "content": nothing}]
