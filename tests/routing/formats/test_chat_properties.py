"""What holds for any JSON at all."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.formats.chat.forward import GATEWAY_FIELDS, forwarded_body
from routing.formats.chat.request import (
    PARAMETER_VOCABULARY,
    ChatInvalid,
    ChatRequest,
    parse_chat,
)
from routing.formats.chat.schema import ChatBody
from tests.routing.formats.chat_bodies import USER
from tests.routing.formats.needing import needed

NAMES = sorted(ChatBody.__annotations__)
WORDS = [
    "type",
    "role",
    "id",
    "content",
    "text",
    "image_url",
    "url",
    "function",
    "name",
    "parameters",
    "user",
    "assistant",
    "tool",
    "system",
    "router:advisor",
    "router:web_search",
    "web_search",
    "web",
    "auto-router",
    "effort",
    "low",
    "sort",
    "by",
    "price",
    "max_price",
    "prompt",
    "p50",
    "json_schema",
    "tool_calls",
    "tool_call_id",
    "file",
    "\0string",
    "[key]",
    "http://x",
]
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, 2, 5.0, 5.5, 1e308, -1e308, 2**63, 2**64, 10**300]),
)
strings = st.one_of(st.sampled_from(WORDS), st.text(max_size=20))
scalars = st.one_of(st.none(), st.booleans(), numbers, strings)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(strings, inner, max_size=5)
    ),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool", "developer"])},
        optional={"content": values, "tool_calls": values, "tool_call_id": strings, "name": values},
    ),
    max_size=3,
)
wild_bodies = st.dictionaries(st.one_of(st.sampled_from(NAMES), strings), values, max_size=8)
plain: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.floats(0, 2),
    "max_tokens": st.integers(1, 10**30),
    "max_completion_tokens": st.integers(1, 99),
    "stop": st.lists(strings, max_size=4),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(0, 20),
    "reasoning": st.fixed_dictionaries({}, optional={"effort": st.just("low")}),
    "include_reasoning": st.booleans(),
    "tools": st.lists(
        st.sampled_from(
            [{"type": "function", "function": {"name": "f"}}, {"type": "router:datetime"}]
        )
    ),
    "tool_choice": st.sampled_from(["none", "auto"]),
    "service_tier": st.sampled_from(["fast", "flex", None]),
    "stream": st.booleans(),
    "user": strings,
    "metadata": st.just({"a": "b"}),
    "foo": values,
}
good_bodies = st.fixed_dictionaries({"messages": st.just([USER])}, optional=plain)


def parsed(body: dict[str, Any]) -> ChatRequest | None:
    try:
        return parse_chat(body, session_header=None)
    except ChatInvalid as error:
        issues = error.issues
    assert issues
    assert all(issue.message for issue in issues)
    return None


@settings(deadline=None, max_examples=300)
@given(wild_bodies)
def test_any_object_is_parsed_or_refused_by_name(body: dict[str, Any]) -> None:
    parsed(body)


@settings(deadline=None, max_examples=300)
@given(wild_bodies, messages)
def test_any_messages_are_parsed_or_refused_by_name(
    body: dict[str, Any], odd: list[dict[str, Any]]
) -> None:
    request = parsed({**body, "messages": odd})
    if request is not None:
        assert request.text_bytes >= 0
        needed(request)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@given(value=values)
def test_any_value_in_any_field_is_parsed_or_refused_by_name(name: str, value: Any) -> None:
    parsed({"messages": [USER], name: value})


@settings(deadline=None, max_examples=200)
@given(
    good_bodies,
    st.frozensets(st.sampled_from(sorted(PARAMETER_VOCABULARY | GATEWAY_FIELDS | {"foo"}))),
    st.one_of(st.none(), st.integers(1, 10)),
)
def test_only_allowed_keys_are_forwarded(
    body: dict[str, Any], supported: frozenset[str], cap: int | None
) -> None:
    request = parse_chat(body, session_header=None)
    sent = forwarded_body(
        request,
        upstream_model="m",
        supported=supported,
        user_hash="h",
        stream_usage=True,
        max_tokens_cap=cap,
    )
    always = {"model", "messages", "max_tokens", "stream", "stream_options"}
    assert set(sent) <= always | (supported - (GATEWAY_FIELDS - {"user"}))
    assert all(value is not None for value in sent.values())
    assert sent.get("user", "h") == "h"
    assert sent.get("max_tokens", 1) <= (cap or 10**30)
