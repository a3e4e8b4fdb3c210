"""Everything of a request but its messages: of chat bodies, and of what stands beside others."""

from typing import Any

import pytest

from tests.gateway.outbound.asking import assistant, call, prompt, result, text, user
from tests.routing.upstreams.anthropic.said import (
    EPHEMERAL,
    EVERYTHING,
    HI,
    HOUR,
    TOOL,
    betas,
    request,
    sent_body,
    terms,
)

ALWAYS = ("model", "messages", "max_tokens")


def only(fields: dict[str, Any], supported: Any = EVERYTHING) -> dict[str, Any]:
    """The settings sent for these chat fields, without what is always there."""
    body = sent_body(prompt({"messages": HI, **fields}), terms(supported))
    return {name: value for name, value in body.items() if name not in ALWAYS}


def test_the_call_itself() -> None:
    made = request(prompt({"messages": HI}, stream=True))
    assert made.path == "/messages"
    assert made.headers == (
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "secret"),
    )
    assert sent_body(prompt({"messages": HI}, stream=True))["stream"] is True
    plain = dict(request(prompt({"messages": HI}), terms(credential=None)).headers)
    assert "x-api-key" not in plain
    assert plain["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("wanted", "cap", "default", "limit"),
    [(None, None, 4096, 4096), (10, None, 4096, 10), (9000, 500, 300, 500), (None, 50, 4096, 50)],
)
def test_the_output_limit(wanted: Any, cap: Any, default: int, limit: int) -> None:
    told = terms(output_cap=cap, output_default=default)
    assert (
        sent_body(prompt({"messages": HI}, max_output_tokens=wanted), told)["max_tokens"] == limit
    )


def test_nothing_is_sent_that_the_endpoint_does_not_list() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    fields = {"temperature": 0.5, "top_p": 0.5, "top_k": 5, "stop": ["x"], "tools": [TOOL]}
    fields |= {"tool_choice": "auto", "verbosity": "low", "service_tier": "auto", "seed": 5}
    fields |= {
        "response_format": schema,
        "logit_bias": {"1": 1},
        "user": "me",
        "metadata": {"a": 1},
    }
    assert only(fields, set()) == {}
    # Of the end user there is a hash, and a verbosity is an effort.
    hashed = sent_body(prompt({"messages": HI, **fields}), terms({"verbosity"}, user_hash="ab12"))
    assert hashed["metadata"] == {"user_id": "ab12"}
    assert hashed["output_config"] == {"effort": "low"}
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
        ({"tool_choice": "none", "parallel_tool_calls": False}, {}),
    ],
)
def test_settings(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert only(given) == kept


def test_objects_of_an_answers_schema_are_closed_where_it_does_not_say() -> None:
    leaf = {"type": "object", "properties": {"type": {"type": "string"}}}
    shut = {**leaf, "additionalProperties": False}
    listed = {"type": "array", "items": {"$ref": "#/$defs/leaf"}}
    opened = {"type": "object", "additionalProperties": True, "default": {"type": "object"}}

    def schema(leaf: Any, **shut: Any) -> dict[str, Any]:
        several = {"anyOf": [leaf, {"type": "null"}]}
        properties = {"type": several, "list": listed, "open": opened}
        kind = ["object", "null"]
        return {"type": kind, "properties": properties, "$defs": {"leaf": leaf}, **shut}

    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema(leaf)}}
    told = only({"response_format": wanted})["output_config"]["format"]["schema"]
    assert told == schema(shut, additionalProperties=False)


def test_tools() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    full = {"name": "g", "description": "d", "parameters": schema, "strict": True}
    bare = {"name": "h", "parameters": {"properties": {}}}
    tools = [{**TOOL, "cache_control": EPHEMERAL}]
    tools += [{"type": "function", "function": function} for function in (full, bare)]
    empty = {"type": "object", "properties": {}}
    assert only({"tools": tools}, {"tools"})["tools"] == [
        {"name": "f", "input_schema": empty, "cache_control": EPHEMERAL},
        {"name": "g", "description": "d", "input_schema": schema},
        {"name": "h", "input_schema": empty},
    ]
    assert only({"tools": tools})["tools"][1]["strict"] is True


ALONE = {"disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("choice", "is_parallel", "told"),
    [
        (None, None, None),
        ("none", None, {"type": "none"}),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, None, {"type": "tool", "name": "f"}),
        ({"type": "router:web_search"}, None, None),
        (None, False, {"type": "auto", **ALONE}),
        (None, True, None),
        ("required", False, {"type": "any", **ALONE}),
        ("none", False, {"type": "none"}),
    ],
)
def test_tool_choice(choice: Any, is_parallel: bool | None, told: Any) -> None:
    wishes = {"tool_choice": choice, "parallel_tool_calls": is_parallel}
    given = {name: value for name, value in wishes.items() if value is not None}
    assert only({"tools": [TOOL], **given}).get("tool_choice") == told


def budget(tokens: int) -> Any:
    return {"type": "enabled", "budget_tokens": tokens}, None


DISABLED = ({"type": "disabled"}, None)
SHOWN, HIDDEN = ({"type": "adaptive", "display": how} for how in ("summarized", "omitted"))
BOTH = "reasoning reasoning_effort"
# What the endpoint lists, the output limit, what is wished, and what is sent of it.
THINKING: list[tuple[str, int, dict[str, Any], Any]] = [
    # An effort is a share of the output limit.
    ("reasoning", 10_000, {"effort": "max"}, budget(9_500)),
    ("reasoning", 10_000, {"effort": "high"}, budget(8_000)),
    ("reasoning", 10_000, {"effort": "medium"}, budget(5_000)),
    ("reasoning", 10_000, {"effort": "low"}, budget(2_000)),
    ("reasoning", 10_000, {"effort": "minimal"}, budget(1_024)),
    ("reasoning", 1_000_000, {"effort": "xhigh"}, budget(128_000)),
    ("reasoning", 10**30, {"effort": "high"}, budget(128_000)),
    ("reasoning", 1_025, {"effort": "high"}, budget(1_024)),
    ("reasoning", 1_024, {"effort": "high"}, (None, None)),
    ("reasoning", 10_000, {"effort": "none"}, DISABLED),
    ("reasoning", 10_000, {"effort": None}, (None, None)),
    # A budget wins and stays below the limit.
    ("reasoning", 10_000, {"effort": "low", "reasoning_tokens": 0}, DISABLED),
    ("reasoning", 10_000, {"effort": "low", "reasoning_tokens": 5}, budget(1_024)),
    ("reasoning", 10_000, {"effort": "low", "reasoning_tokens": 3_000}, budget(3_000)),
    ("reasoning", 10_000, {"effort": "low", "reasoning_tokens": 10_000}, budget(9_999)),
    # An endpoint that lists efforts gets one.
    (BOTH, 10_000, {"effort": "high"}, (SHOWN, "high")),
    (BOTH, 10_000, {"reasoning_tokens": 5_000}, budget(5_000)),
    ("reasoning_effort", 10_000, {"effort": "minimal"}, (SHOWN, "low")),
    ("reasoning_effort", 10_000, {"effort": "max", "exclude_reasoning": True}, (HIDDEN, "max")),
    ("", 10_000, {"effort": "max"}, (None, None)),
]


@pytest.mark.parametrize(("supported", "limit", "wishes", "told"), THINKING)
def test_thinking(supported: str, limit: int, wishes: dict[str, Any], told: Any) -> None:
    listed = EVERYTHING - {"reasoning"} | set(supported.split())
    body = sent_body(prompt({"messages": HI}, max_output_tokens=limit, **wishes), terms(listed))
    assert (body.get("thinking"), body.get("output_config", {}).get("effort")) == told


def test_sampling_that_thinking_does_not_go_with_is_left_out() -> None:
    chat = {"messages": HI, "temperature": 0.2, "top_k": 5, "top_p": 0.5, "stop": "x"}
    body = sent_body(prompt(chat, effort="high"))
    assert not {"temperature", "top_k", "top_p"} & body.keys()
    assert body["stop_sequences"] == ["x"]
    assert sent_body(prompt({**chat, "top_p": 0.96}, effort="high"))["top_p"] == 0.96


@pytest.mark.parametrize(
    "chat",
    [
        {"messages": HI, "tools": [TOOL], "tool_choice": "required"},
        {"messages": [*HI, assistant("Once upon")]},
        {"messages": [*HI, assistant(tool_calls=[call("a")]), result("a")]},
    ],
    ids=["a call is demanded", "an answer to continue", "calls made without thinking"],
)
def test_where_thinking_is_refused_the_answer_matters_more(chat: dict[str, Any]) -> None:
    assert "thinking" not in sent_body(prompt(chat, effort="high"))
    assert sent_body(prompt(chat, effort="none"))["thinking"] == {"type": "disabled"}


def test_thinking_goes_on_between_calls() -> None:
    seal = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
    called = assistant(tool_calls=[call("a")], reasoning_details=[seal])
    chat = {"messages": [*HI, called, result("a")], "tools": [TOOL]}
    made = request(prompt(chat, effort="high"))
    assert b'"thinking":{"type":"enabled"' in made.body
    assert betas(made) == ["interleaved-thinking-2025-05-14"]


def test_breakpoints_in_either_spelling_and_the_automatic_one() -> None:
    explicit = text("a", prompt_cache_breakpoint={"mode": "explicit"})
    said = [user([explicit, text("b", prompt_cache_breakpoint=None)])]
    chat: dict[str, Any] = {"messages": said, "cache_control": HOUR}
    assert betas(request(prompt(chat))) == ["extended-cache-ttl-2025-04-11"]
    content = sent_body(prompt(chat))["messages"][0]["content"]
    assert [block["cache_control"] for block in content] == [EPHEMERAL, HOUR]
    chat["prompt_cache_options"] = {"mode": "explicit"}
    assert "cache_control" not in sent_body(prompt(chat))["messages"][0]["content"][1]


EFFORTS = EVERYTHING - {"reasoning"} | {"reasoning_effort"}
VERBOSE = EVERYTHING | {"verbosity"}
SHAPELESS = EVERYTHING - {"response_format", "structured_outputs"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FORMAT = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
}
CLOSED = {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
OWN_FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
AUTOMATIC = {"cache_control": EPHEMERAL}
MARKED_ONLY = {"prompt_cache_options": {"mode": "explicit"}}
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2_500}}
DEMANDED = {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}}
COOL = {"temperature": 0.5}


def effort(name: str) -> dict[str, Any]:
    return {"output_config": {"effort": name}}


ADAPTED = {"thinking": SHOWN, **effort("low")}


# The body's own fields, what stands beside it, what is wished, what is listed, and what is sent.
BESIDE: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], frozenset[str], Any]] = [
    ({}, {}, {}, EVERYTHING, {}),
    # An effort of the body's own is one.
    (effort("low"), {}, {"effort": "low"}, EVERYTHING, effort("low")),
    ({**COOL, "top_p": 0.5, "top_k": 5}, {}, {"effort": "minimal"}, EFFORTS, ADAPTED),
    ({"top_p": 0.99}, {}, {"effort": "medium"}, EVERYTHING, {"top_p": 0.99, **ENABLED}),
    (COOL, {}, {"effort": "none"}, EVERYTHING, {**COOL, "thinking": {"type": "disabled"}}),
    (DEMANDED, {}, {"reasoning_tokens": 2_000}, EVERYTHING, DEMANDED),
    (ENABLED, {}, {"effort": "high"}, EVERYTHING, ENABLED),
    ({}, {"verbosity": "low"}, {}, VERBOSE, effort("low")),
    ({}, {"verbosity": "low"}, {}, EVERYTHING, {}),
    (effort("high"), {"verbosity": "low"}, {}, VERBOSE, effort("high")),
    ({}, FORMAT, {}, EVERYTHING, {"output_config": {"format": CLOSED}}),
    (OWN_FORMAT, FORMAT, {}, EVERYTHING, OWN_FORMAT),
    ({}, FORMAT, {}, SHAPELESS, {}),
    ({}, {"response_format": {"type": "json_object"}}, {}, EVERYTHING, {}),
    (AUTOMATIC, {}, {}, EVERYTHING, AUTOMATIC),
    (AUTOMATIC, MARKED_ONLY, {}, EVERYTHING, {}),
]


@pytest.mark.parametrize(("own", "beside", "wishes", "supported", "told"), BESIDE)
def test_what_chat_says_beside_a_messages_body(
    own: Any, beside: Any, wishes: Any, supported: frozenset[str], told: dict[str, Any]
) -> None:
    original = {"model": "acme/m", "max_tokens": 5_000, "messages": HI, **own}
    asked = prompt(beside, original=original, max_output_tokens=5_000, **wishes)
    body = sent_body(asked, terms(supported))
    assert {name: value for name, value in body.items() if name not in ALWAYS} == told


def test_an_answer_to_continue_is_not_thought_about() -> None:
    original = {"max_tokens": 5_000, "messages": [*HI, assistant("And so")]}
    asked = prompt({}, original=original, max_output_tokens=5_000, reasoning_tokens=2_000)
    assert "thinking" not in sent_body(asked)
