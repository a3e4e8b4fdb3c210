"""A messages body for an upstream that speaks the same format."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import (
    EVERYTHING,
    betas,
    prompt,
    request,
    sent,
    terms,
)

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
MARK = {"type": "ephemeral"}


def passed(
    fields: dict[str, Any], supported: frozenset[str] = EVERYTHING, **told: Any
) -> dict[str, Any]:
    """What goes upstream for these fields, without what is always there."""
    original = {"model": "acme/m", "max_tokens": 5_000, "messages": HI, **fields}
    asked = prompt({}, original=original, max_output_tokens=5_000)
    body = sent(asked, terms(supported, **told))
    assert body.pop("model") == "claude"
    return {
        name: value
        for name, value in body.items()
        if name != "max_tokens" and body[name] != original["messages"]
    }


def test_messages_go_as_they_came() -> None:
    block = {"type": "text", "text": " ", "new_key": 1, "citations": [{"type": "page_location"}]}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": [block, {"type": "new_block", "x": None}]},
        {"role": "assistant", "content": "again "},
    ]
    body = sent(prompt({}, original={"messages": messages}), terms())
    assert body == {"model": "claude", "max_tokens": 4096, "messages": messages}


def test_the_gateways_own_fields_stay_here() -> None:
    own: dict[str, Any] = {
        "models": ["a"],
        "fallbacks": None,
        "provider": {"sort": "price"},
        "plugins": [],
        "route": "fallback",
        "preset": "p",
        "session_id": "s",
        "trace": {},
        "user": "me",
        "stop_server_tools_when": [],
        "metadata": {"user_id": "me"},
        "stream": False,
    }
    assert passed(own, EVERYTHING | own.keys()) == {}
    assert passed(own, user_hash="ab")["metadata"] == {"user_id": "ab"}


SETTINGS: dict[str, Any] = {
    "system": [{"type": "text", "text": "s", "cache_control": MARK}],
    "temperature": 1.5,
    "top_p": 0.5,
    "top_k": 3,
    "stop_sequences": ["\n"],
    "thinking": {"type": "enabled", "budget_tokens": 2_000},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "new": 1}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "cache_control": MARK,
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
}


def test_listed_parameters_go_as_they_came() -> None:
    assert passed(SETTINGS) == SETTINGS


def test_the_others_are_dropped() -> None:
    kept = ("system", "cache_control", "context_management")
    assert passed(SETTINGS, frozenset()) == {name: SETTINGS[name] for name in kept}
    assert passed({"inference_geo": "eu"}) == {}
    assert passed({"inference_geo": "eu"}, EVERYTHING | {"inference_geo"}) == {
        "inference_geo": "eu"
    }
    assert passed({"temperature": None, "thinking": None, "output_config": None}) == {}


@pytest.mark.parametrize(
    ("tier", "told"), [("standard_only", "standard_only"), ("auto", "auto"), ("flex", None)]
)
def test_the_tier(tier: str, told: Any) -> None:
    assert passed({"service_tier": tier}).get("service_tier") == told


@pytest.mark.parametrize(("cap", "budget"), [(None, 2_000), (1_500, 1_499), (1_000, None)])
def test_a_budget_stays_below_what_the_endpoint_gives_out(cap: Any, budget: Any) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2_000, "display": "omitted"}
    edits = [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]
    fields = {"thinking": thinking, "context_management": {"edits": edits}}
    body = passed(fields, output_cap=cap)
    if budget is None:
        assert body == {"context_management": {"edits": edits[1:]}}
    else:
        assert body["thinking"] == {**thinking, "budget_tokens": budget}
        assert body["context_management"] == {"edits": edits}


def test_tools_of_the_gateway_are_taken_out() -> None:
    tools = [{"type": "router:datetime"}, {"type": "bash_20250124", "name": "bash"}]
    assert passed({"tools": tools}) == {"tools": tools[1:]}
    assert "tools" not in passed({"tools": tools[:1], "tool_choice": {"type": "auto"}})


def test_no_thinking_is_asked_for_in_the_middle_of_calls_made_without_it() -> None:
    def thinking(*first: dict[str, Any]) -> Any:
        used = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        messages = [
            *HI,
            {"role": "assistant", "content": [*first, used]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
        ]
        wanted = {"type": "enabled", "budget_tokens": 2_000}
        return passed({"messages": messages, "thinking": wanted}).get("thinking")

    assert thinking({"type": "thinking", "thinking": "x", "signature": "s"}) is not None
    assert thinking({"type": "text", "text": "x"}) is None


def test_the_last_breakpoints_stay_and_the_body_is_not_touched() -> None:
    def marked(text: str) -> dict[str, Any]:
        return {"type": "text", "text": text, "cache_control": MARK}

    result = {"type": "tool_result", "tool_use_id": "t", "content": [marked("a")]}
    messages = [{"role": "user", "content": [{**result, "cache_control": MARK}, marked("b")]}]
    fields = {"system": [marked("s")], "messages": messages, "cache_control": MARK}
    before = repr(fields)
    body = passed(fields)
    assert "cache_control" not in body["system"][0]
    assert body["cache_control"] == MARK
    assert "messages" not in body
    fields["messages"] = [*messages, {"role": "user", "content": [marked("c")]}]
    first = passed(fields)["messages"][0]["content"]
    assert "cache_control" not in first[0]["content"][0]
    assert first[0]["cache_control"] == MARK
    fields["messages"] = messages
    assert repr(fields) == before


LONG = {"type": "ephemeral", "ttl": "1h"}
FILE = {"type": "document", "source": {"type": "file", "file_id": "f"}}


@pytest.mark.parametrize(
    ("fields", "beta"),
    [
        ({"cache_control": LONG}, "extended-cache-ttl-2025-04-11"),
        (
            {"system": [{"type": "text", "text": "s", "cache_control": LONG}]},
            "extended-cache-ttl-2025-04-11",
        ),
        (
            {"tools": [{"name": "f", "input_schema": {}, "cache_control": LONG}]},
            "extended-cache-ttl-2025-04-11",
        ),
        ({"messages": [{"role": "user", "content": [FILE, FILE]}]}, "files-api-2025-04-14"),
        (
            {"messages": [{"role": "system", "content": "s"}]},
            "mid-conversation-system-2026-04-07",
        ),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "compact-2026-01-12"),
        (
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context-management-2025-06-27",
        ),
        (
            {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}},
            "task-budgets-2026-03-13",
        ),
        ({"speed": "fast"}, "fast-mode-2026-02-01"),
        (
            {"thinking": {"type": "adaptive", "display": "updates"}},
            "thinking-display-updates-2026-08-18",
        ),
        ({"tools": [{"type": "computer_20251124"}]}, "computer-use-2025-11-24"),
    ],
)
def test_what_a_body_uses_is_named_in_the_header(fields: dict[str, Any], beta: str) -> None:
    original = {"messages": HI, **fields}
    made = request(prompt({}, original=original), terms(EVERYTHING | {"speed"}))
    assert betas(made) == [beta]


def test_a_plain_body_needs_no_beta() -> None:
    original = {"messages": HI, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert betas(request(prompt({}, original=original), terms())) == []
