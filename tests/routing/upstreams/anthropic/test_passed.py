"""A messages body for an upstream that speaks the same format."""

from typing import Any

import pytest

from tests.gateway.outbound.asking import assistant, prompt, text, user
from tests.routing.upstreams.anthropic.said import (
    EPHEMERAL,
    EVERYTHING,
    HI,
    HOUR,
    betas,
    request,
    sent_body,
    terms,
)


def passed_fields(
    fields: dict[str, Any], supported: Any = EVERYTHING, **told: Any
) -> dict[str, Any]:
    """What goes upstream for these fields, without what is always there."""
    original = {"model": "acme/m", "max_tokens": 5_000, "messages": HI, **fields}
    asked = prompt({}, original=original, max_output_tokens=5_000)
    body = sent_body(asked, terms(supported, **told))
    assert body.pop("model") == "up-1"
    del body["max_tokens"]
    if body["messages"] == original["messages"]:
        del body["messages"]
    return body


def test_messages_go_as_they_came() -> None:
    block = text(" ", new_key=1, citations=[{"type": "page_location"}])
    messages = [
        {"role": "system", "content": "s"},
        assistant([block, {"type": "new_block", "x": None}]),
        assistant("again "),
    ]
    body = sent_body(prompt({}, original={"messages": messages}))
    assert body == {"model": "up-1", "max_tokens": 4096, "messages": messages}


def test_the_gateways_own_fields_stay_here() -> None:
    own: dict[str, Any] = {"models": ["a"], "fallbacks": None, "provider": {"sort": "price"}}
    own |= {"plugins": [], "route": "fallback", "preset": "p", "session_id": "s", "trace": {}}
    own |= {"user": "me", "stop_server_tools_when": [], "metadata": {"user_id": "me"}}
    own["stream"] = False
    assert passed_fields(own, EVERYTHING | own.keys()) == {}
    assert passed_fields(own, user_hash="ab")["metadata"] == {"user_id": "ab"}


SETTINGS: dict[str, Any] = {
    "system": [text("s", cache_control=EPHEMERAL)],
    "temperature": 1.5,
    "top_p": 0.5,
    "top_k": 3,
    "stop_sequences": ["\n"],
    "thinking": {"type": "enabled", "budget_tokens": 2_000},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "new": 1}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "cache_control": EPHEMERAL,
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
}


def test_parameters_go_as_they_came_where_they_are_listed() -> None:
    assert passed_fields(SETTINGS) == SETTINGS
    kept = ("system", "cache_control", "context_management")
    assert passed_fields(SETTINGS, set()) == {name: SETTINGS[name] for name in kept}
    assert passed_fields({"inference_geo": "eu"}) == {}
    listed = EVERYTHING | {"inference_geo"}
    assert passed_fields({"inference_geo": "eu"}, listed) == {"inference_geo": "eu"}
    assert passed_fields({"temperature": None, "thinking": None, "output_config": None}) == {}


@pytest.mark.parametrize(
    ("tier", "told"), [("standard_only", "standard_only"), ("auto", "auto"), ("flex", None)]
)
def test_the_tier(tier: str, told: Any) -> None:
    assert passed_fields({"service_tier": tier}).get("service_tier") == told


@pytest.mark.parametrize(("cap", "budget"), [(None, 2_000), (1_500, 1_499), (1_000, None)])
def test_a_budget_stays_below_what_the_endpoint_gives_out(cap: Any, budget: Any) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2_000, "display": "omitted"}
    edits = [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]
    fields = {"thinking": thinking, "context_management": {"edits": edits}}
    told = {**fields, "thinking": {**thinking, "budget_tokens": budget}}
    without = {"context_management": {"edits": edits[1:]}}
    assert passed_fields(fields, output_cap=cap) == (told if budget else without)


def test_tools_of_the_gateway_are_taken_out() -> None:
    tools = [{"type": "router:datetime"}, {"type": "bash_20250124", "name": "bash"}]
    assert passed_fields({"tools": tools}) == {"tools": tools[1:]}
    assert "tools" not in passed_fields({"tools": tools[:1], "tool_choice": {"type": "auto"}})


@pytest.mark.parametrize(
    ("first", "is_asked"),
    [({"type": "thinking", "thinking": "x", "signature": "s"}, True), (text("x"), False)],
)
def test_thinking_is_asked_for_in_the_middle_of_calls_that_were_made_with_it(
    first: dict[str, Any], is_asked: bool
) -> None:
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    told = user([{"type": "tool_result", "tool_use_id": "t"}])
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    fields = {"messages": [*HI, assistant([first, used]), told], "thinking": thinking}
    assert ("thinking" in passed_fields(fields)) is is_asked


def test_the_last_breakpoints_stay_and_the_body_is_not_touched() -> None:
    a, b, s = (text(each, cache_control=EPHEMERAL) for each in "abs")
    result = {"type": "tool_result", "tool_use_id": "t", "content": [a]}
    messages = [user([{**result, "cache_control": EPHEMERAL}, b])]
    fields = {"system": [s], "messages": messages, "cache_control": EPHEMERAL}
    before = repr(fields)
    assert passed_fields(fields) == {"system": [text("s")], "cache_control": EPHEMERAL}
    assert repr(fields) == before


FILE = {"type": "document", "source": {"type": "file", "file_id": "f"}}


def context_edit(kind: str) -> dict[str, Any]:
    return {"context_management": {"edits": [{"type": kind}]}}


@pytest.mark.parametrize(
    ("fields", "beta"),
    [
        ({"cache_control": HOUR}, "extended-cache-ttl-2025-04-11"),
        ({"messages": [user([FILE, FILE])]}, "files-api-2025-04-14"),
        ({"messages": [{"role": "system", "content": "s"}]}, "mid-conversation-system-2026-04-07"),
        (context_edit("compact_20260112"), "compact-2026-01-12"),
        (context_edit("clear_tool_uses_20250919"), "context-management-2025-06-27"),
        ({"output_config": {"task_budget": {"total": 20_000}}}, "task-budgets-2026-03-13"),
        ({"speed": "fast"}, "fast-mode-2026-02-01"),
        (
            {"thinking": {"type": "adaptive", "display": "updates"}},
            "thinking-display-updates-2026-08-18",
        ),
        ({"tools": [{"type": "computer_20251124"}]}, "computer-use-2025-11-24"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
    ],
)
def test_what_a_body_uses_is_named_in_the_header(fields: dict[str, Any], beta: str | None) -> None:
    original = {"messages": HI, **fields}
    made = request(prompt({}, original=original), terms(EVERYTHING | {"speed"}))
    assert betas(made) == ([beta] if beta else [])
