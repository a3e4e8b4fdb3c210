"""Everything of a translated request but its messages."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import (
    EVERYTHING,
    TOOL,
    assistant,
    betas,
    call,
    prompt,
    request,
    result,
    sent,
    sent_for,
    terms,
    user,
)

HI = [user("hi")]


def only(fields: dict[str, Any], supported: frozenset[str] = EVERYTHING) -> dict[str, Any]:
    """The settings sent for these chat fields, without what is always there."""
    body = sent(prompt({"messages": HI, **fields}), terms(supported))
    return {
        name: value
        for name, value in body.items()
        if name not in ("model", "messages", "max_tokens")
    }


def test_the_call_itself() -> None:
    made = request(prompt({"messages": HI}, stream=True), terms())
    assert made.path == "/messages"
    assert made.headers == (
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "sk-secret"),
    )
    assert sent(prompt({"messages": HI}, stream=True), terms())["stream"] is True


def test_an_endpoint_without_a_credential_gets_none() -> None:
    made = request(prompt({"messages": HI}), terms(credential=None))
    assert "x-api-key" not in dict(made.headers)
    assert dict(made.headers)["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("wanted", "cap", "default", "limit"),
    [(None, None, 4096, 4096), (10, None, 4096, 10), (9000, 500, 300, 500), (None, 50, 4096, 50)],
)
def test_the_output_limit(wanted: Any, cap: Any, default: int, limit: int) -> None:
    told = terms(output_cap=cap, output_default=default)
    assert sent(prompt({"messages": HI}, max_output_tokens=wanted), told)["max_tokens"] == limit


def test_nothing_is_sent_that_the_endpoint_does_not_list() -> None:
    fields = {
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 5,
        "stop": ["x"],
        "tools": [TOOL],
        "tool_choice": "auto",
        "verbosity": "low",
        "service_tier": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        "seed": 5,
        "logit_bias": {"1": 1},
        "user": "me",
        "metadata": {"a": "b"},
    }
    assert only(fields, frozenset()) == {}
    assert "seed" not in only(fields, EVERYTHING | {"seed"})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"temperature": 1.7}, {"temperature": 1}),
        ({"temperature": 0.7, "top_p": 1}, {"temperature": 0.7}),
        ({"temperature": 1, "top_p": 0.4}, {"top_p": 0.4}),
        ({"temperature": 0.2, "top_p": 0.4}, {"temperature": 0.2, "top_p": 0.4}),
        ({"top_k": 0}, {}),
        ({"top_k": 7.0}, {"top_k": 7}),
        ({"temperature": None}, {}),
        ({"stop": "end"}, {"stop_sequences": ["end"]}),
        ({"stop": ["\n", "end"]}, {"stop_sequences": ["end"]}),
        ({"stop": []}, {}),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}),
        ({"service_tier": "priority"}, {"service_tier": "auto"}),
        ({"service_tier": "flex"}, {}),
        ({"response_format": {"type": "json_object"}}, {}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1}}}},
            {"output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}}},
        ),
        ({"tool_choice": "none"}, {}),
        ({"parallel_tool_calls": False}, {}),
    ],
)
def test_settings(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert only(given) == kept


def test_objects_of_an_answers_schema_are_closed_where_it_does_not_say() -> None:
    leaf = {"type": "object", "properties": {"type": {"type": "string"}}}
    schema: dict[str, Any] = {
        "type": ["object", "null"],
        "properties": {
            "type": {"anyOf": [leaf, {"type": "null"}]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/leaf"}},
            "open": {"type": "object", "additionalProperties": True, "default": {"type": "object"}},
        },
        "$defs": {"leaf": leaf},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    sent_schema = only({"response_format": wanted})["output_config"]["format"]["schema"]
    shut = {**leaf, "additionalProperties": False}
    assert sent_schema == {
        "type": ["object", "null"],
        "properties": {
            "type": {"anyOf": [shut, {"type": "null"}]},
            "list": schema["properties"]["list"],
            "open": schema["properties"]["open"],
        },
        "$defs": {"leaf": shut},
        "additionalProperties": False,
    }


def test_tools() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    full = {"name": "g", "description": "d", "parameters": schema, "strict": True}
    tools = [
        {**TOOL, "cache_control": {"type": "ephemeral"}},
        {"type": "function", "function": full},
        {"type": "function", "function": {"name": "h", "parameters": {"properties": {}}}},
    ]
    empty = {"type": "object", "properties": {}}
    plain = only({"tools": tools}, frozenset({"tools"}))["tools"]
    assert plain == [
        {"name": "f", "input_schema": empty, "cache_control": {"type": "ephemeral"}},
        {"name": "g", "description": "d", "input_schema": schema},
        {"name": "h", "input_schema": empty},
    ]
    assert only({"tools": tools})["tools"][1]["strict"] is True


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({}, None),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"type": "tool", "name": "f"},
        ),
        ({"tool_choice": {"type": "router:web_search"}}, None),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": True}, None),
        (
            {"parallel_tool_calls": False, "tool_choice": "required"},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"type": "none"}),
    ],
)
def test_tool_choice(given: dict[str, Any], choice: Any) -> None:
    assert only({"tools": [TOOL], **given}).get("tool_choice") == choice


def thinking(supported: str, *, limit: int = 10_000, **wishes: Any) -> Any:
    listed = EVERYTHING - {"reasoning"} | set(supported.split())
    body = sent(prompt({"messages": HI}, max_output_tokens=limit, **wishes), terms(listed))
    return body.get("thinking"), body.get("output_config", {}).get("effort")


def budget(tokens: int) -> Any:
    return {"type": "enabled", "budget_tokens": tokens}, None


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("effort", "limit", "told"),
    [
        ("max", 10_000, budget(9_500)),
        ("high", 10_000, budget(8_000)),
        ("medium", 10_000, budget(5_000)),
        ("low", 10_000, budget(2_000)),
        ("minimal", 10_000, budget(1_024)),
        ("xhigh", 1_000_000, budget(128_000)),
        ("high", 10**30, budget(128_000)),
        ("high", 1_025, budget(1_024)),
        ("high", 1_024, (None, None)),
        ("none", 10_000, ({"type": "disabled"}, None)),
        (None, 10_000, (None, None)),
    ],
)
def test_an_effort_is_a_share_of_the_output_limit(effort: Any, limit: int, told: Any) -> None:
    assert thinking("reasoning", limit=limit, effort=effort) == told


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (0, ({"type": "disabled"}, None)),
        (5, budget(1_024)),
        (3_000, budget(3_000)),
        (10_000, budget(9_999)),
    ],
)
def test_a_budget_wins_and_stays_below_the_limit(tokens: int, told: Any) -> None:
    assert thinking("reasoning", reasoning_tokens=tokens, effort="low") == told


def test_an_endpoint_that_lists_efforts_gets_one() -> None:
    assert thinking("reasoning reasoning_effort", effort="high") == (ADAPTIVE, "high")
    assert thinking("reasoning_effort", effort="minimal") == (ADAPTIVE, "low")
    assert thinking("reasoning reasoning_effort", reasoning_tokens=5_000) == budget(5_000)
    hidden = {"type": "adaptive", "display": "omitted"}
    assert thinking("reasoning_effort", effort="max", exclude_reasoning=True) == (hidden, "max")
    assert thinking("", effort="max") == (None, None)


def test_verbosity_is_an_effort_where_it_is_listed() -> None:
    body = sent(prompt({"messages": HI, "verbosity": "low"}), terms(frozenset({"verbosity"})))
    assert body["output_config"] == {"effort": "low"}


def test_sampling_that_thinking_does_not_go_with_is_left_out() -> None:
    chat = {"messages": HI, "temperature": 0.2, "top_k": 5, "top_p": 0.5, "stop": "x"}
    body = sent(prompt(chat, effort="high"), terms())
    assert not {"temperature", "top_k", "top_p"} & body.keys()
    assert body["stop_sequences"] == ["x"]
    assert sent(prompt({**chat, "top_p": 0.96}, effort="high"), terms())["top_p"] == 0.96


@pytest.mark.parametrize(
    "chat",
    [
        {"messages": HI, "tools": [TOOL], "tool_choice": "required"},
        {"messages": [*HI, assistant("Once upon")]},
        {"messages": [*HI, assistant(None, tool_calls=[call("a")]), result("a")]},
    ],
)
def test_where_thinking_is_refused_the_answer_matters_more(chat: dict[str, Any]) -> None:
    assert "thinking" not in sent(prompt(chat, effort="high"), terms())
    assert sent(prompt(chat, effort="none"), terms())["thinking"] == {"type": "disabled"}


def test_thinking_goes_on_between_calls() -> None:
    seal = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
    called = assistant(None, tool_calls=[call("a")], reasoning_details=[seal])
    chat = {"messages": [*HI, called, result("a")], "tools": [TOOL]}
    made = request(prompt(chat, effort="high"), terms())
    assert b'"thinking":{"type":"enabled"' in made.body
    assert betas(made) == ["interleaved-thinking-2025-05-14"]


def test_the_end_user_is_told_by_a_hash_only() -> None:
    body = sent(prompt({"messages": HI, "user": "me@x"}), terms(user_hash="ab12"))
    assert body["metadata"] == {"user_id": "ab12"}


def marked(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **(fields or {"cache_control": {"type": "ephemeral"}})}


def test_the_last_four_breakpoints_stay() -> None:
    body = sent_for(
        [{"role": "system", "content": [marked("s")]}, user([marked(c) for c in "abc"])],
        tools=[{**TOOL, "cache_control": {"type": "ephemeral"}}],
        cache_control={"type": "ephemeral", "ttl": "1h"},
    )
    assert "cache_control" not in body["tools"][0]
    [turn] = body["messages"]
    kept = [block.get("cache_control") for block in [*body["system"], *turn["content"]]]
    assert kept == [{"type": "ephemeral"}] * 4


def test_breakpoints_in_either_spelling_and_the_automatic_one() -> None:
    explicit = marked("a", prompt_cache_breakpoint={"mode": "explicit"})
    chat: dict[str, Any] = {
        "messages": [user([explicit, marked("b", prompt_cache_breakpoint=None)])],
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    }
    made = request(prompt(chat), terms())
    assert betas(made) == ["extended-cache-ttl-2025-04-11"]
    content = sent(prompt(chat), terms())["messages"][0]["content"]
    assert content[0]["cache_control"] == {"type": "ephemeral"}
    assert content[1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    chat["prompt_cache_options"] = {"mode": "explicit"}
    assert "cache_control" not in sent(prompt(chat), terms())["messages"][0]["content"][1]


def test_the_callers_body_stays_as_it_was() -> None:
    chat = {"messages": [user([marked(c) for c in "abcdef"])], "cache_control": {"type": "x"}}
    before = repr(chat)
    sent(prompt(chat), terms())
    assert repr(chat) == before
