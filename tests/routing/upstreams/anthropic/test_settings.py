"""Everything of a request but its messages: of chat bodies, and of what stands beside others."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import (
    EPHEMERAL,
    EVERYTHING,
    HI,
    HOUR,
    TOOL,
    betas,
    request,
    sent,
    sent_for,
    terms,
)
from tests.routing.upstreams.asking import assistant, call, prompt, result, text, user

ALWAYS = ("model", "messages", "max_tokens")


def only(fields: dict[str, Any], supported: Any = EVERYTHING) -> dict[str, Any]:
    """The settings sent for these chat fields, without what is always there."""
    body = sent(prompt({"messages": HI, **fields}), terms(supported))
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
    assert sent(prompt({"messages": HI}, stream=True))["stream"] is True
    plain = dict(request(prompt({"messages": HI}), terms(credential=None)).headers)
    assert "x-api-key" not in plain
    assert plain["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("wanted", "cap", "default", "limit"),
    [(None, None, 4096, 4096), (10, None, 4096, 10), (9000, 500, 300, 500), (None, 50, 4096, 50)],
)
def test_the_output_limit(wanted: Any, cap: Any, default: int, limit: int) -> None:
    told = terms(output_cap=cap, output_default=default)
    assert sent(prompt({"messages": HI}, max_output_tokens=wanted), told)["max_tokens"] == limit


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


def thinking(supported: str, *, limit: int = 10_000, **wishes: Any) -> Any:
    listed = EVERYTHING - {"reasoning"} | set(supported.split())
    body = sent(prompt({"messages": HI}, max_output_tokens=limit, **wishes), terms(listed))
    return body.get("thinking"), body.get("output_config", {}).get("effort")


def budget(tokens: int) -> Any:
    return {"type": "enabled", "budget_tokens": tokens}, None


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
    shown, hidden = ({"type": "adaptive", "display": how} for how in ("summarized", "omitted"))
    assert thinking("reasoning reasoning_effort", effort="high") == (shown, "high")
    assert thinking("reasoning_effort", effort="minimal") == (shown, "low")
    assert thinking("reasoning reasoning_effort", reasoning_tokens=5_000) == budget(5_000)
    assert thinking("reasoning_effort", effort="max", exclude_reasoning=True) == (hidden, "max")
    assert thinking("", effort="max") == (None, None)


def test_sampling_that_thinking_does_not_go_with_is_left_out() -> None:
    chat = {"messages": HI, "temperature": 0.2, "top_k": 5, "top_p": 0.5, "stop": "x"}
    body = sent(prompt(chat, effort="high"))
    assert not {"temperature", "top_k", "top_p"} & body.keys()
    assert body["stop_sequences"] == ["x"]
    assert sent(prompt({**chat, "top_p": 0.96}, effort="high"))["top_p"] == 0.96


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
    assert "thinking" not in sent(prompt(chat, effort="high"))
    assert sent(prompt(chat, effort="none"))["thinking"] == {"type": "disabled"}


def test_thinking_goes_on_between_calls() -> None:
    seal = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
    called = assistant(tool_calls=[call("a")], reasoning_details=[seal])
    chat = {"messages": [*HI, called, result("a")], "tools": [TOOL]}
    made = request(prompt(chat, effort="high"))
    assert b'"thinking":{"type":"enabled"' in made.body
    assert betas(made) == ["interleaved-thinking-2025-05-14"]


def test_the_end_user_is_told_by_a_hash_only() -> None:
    body = sent(prompt({"messages": HI, "user": "me@x"}), terms(user_hash="ab12"))
    assert body["metadata"] == {"user_id": "ab12"}


def test_the_last_four_breakpoints_stay() -> None:
    first, *rest = (text(each, cache_control=EPHEMERAL) for each in "sabc")
    messages = [{"role": "system", "content": [first]}, user(rest)]
    tools = [{**TOOL, "cache_control": EPHEMERAL}]
    before = repr((messages, tools))
    body = sent_for(messages, tools=tools, cache_control=HOUR)
    assert "cache_control" not in body["tools"][0]
    [turn] = body["messages"]
    kept = [block.get("cache_control") for block in [*body["system"], *turn["content"]]]
    assert kept == [EPHEMERAL] * 4
    assert repr((messages, tools)) == before


def test_breakpoints_in_either_spelling_and_the_automatic_one() -> None:
    explicit = text("a", prompt_cache_breakpoint={"mode": "explicit"})
    said = [user([explicit, text("b", prompt_cache_breakpoint=None)])]
    chat: dict[str, Any] = {"messages": said, "cache_control": HOUR}
    assert betas(request(prompt(chat))) == ["extended-cache-ttl-2025-04-11"]
    content = sent(prompt(chat))["messages"][0]["content"]
    assert [block["cache_control"] for block in content] == [EPHEMERAL, HOUR]
    chat["prompt_cache_options"] = {"mode": "explicit"}
    assert "cache_control" not in sent(prompt(chat))["messages"][0]["content"][1]


# What chat says of a request beside its messages body.

EFFORTS = EVERYTHING - {"reasoning"} | {"reasoning_effort"}
VERBOSE = EVERYTHING | {"verbosity"}
SHAPELESS = EVERYTHING - {"response_format", "structured_outputs"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
CLOSED = {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
OWN_FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
AUTOMATIC = {"cache_control": EPHEMERAL}
ENABLED = {"type": "enabled", "budget_tokens": 1_024}
DEMANDED = {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}}
SHOWN = {"type": "adaptive", "display": "summarized"}


def effort(name: str) -> dict[str, Any]:
    return {"output_config": {"effort": name}}


@pytest.mark.parametrize(
    ("own", "beside", "wishes", "supported", "told"),
    [
        # Where nothing is beside, nothing is added; an effort of the body's own is one.
        ({}, {}, {}, EVERYTHING, {}),
        (effort("low"), {}, {"effort": "low"}, EVERYTHING, effort("low")),
        (
            {"temperature": 0.5, "top_p": 0.5, "top_k": 5},
            {},
            {"effort": "minimal"},
            EFFORTS,
            {"thinking": SHOWN, **effort("low")},
        ),
        (
            {"top_p": 0.99},
            {},
            {"effort": "medium"},
            EVERYTHING,
            {"top_p": 0.99, "thinking": {"type": "enabled", "budget_tokens": 2_500}},
        ),
        (
            {"temperature": 0.5},
            {},
            {"effort": "none"},
            EVERYTHING,
            {"temperature": 0.5, "thinking": {"type": "disabled"}},
        ),
        (DEMANDED, {}, {"reasoning_tokens": 2_000}, EVERYTHING, DEMANDED),
        ({"thinking": ENABLED}, {}, {"effort": "high"}, EVERYTHING, {"thinking": ENABLED}),
        ({}, {"verbosity": "low"}, {}, VERBOSE, effort("low")),
        ({}, {"verbosity": "low"}, {}, EVERYTHING, {}),
        (effort("high"), {"verbosity": "low"}, {}, VERBOSE, effort("high")),
        ({}, {"response_format": FORMAT}, {}, EVERYTHING, {"output_config": {"format": CLOSED}}),
        (OWN_FORMAT, {"response_format": FORMAT}, {}, EVERYTHING, OWN_FORMAT),
        ({}, {"response_format": FORMAT}, {}, SHAPELESS, {}),
        ({}, {"response_format": {"type": "json_object"}}, {}, EVERYTHING, {}),
        (AUTOMATIC, {}, {}, EVERYTHING, AUTOMATIC),
        # Only marked blocks are cached where a preset says so.
        (AUTOMATIC, {"prompt_cache_options": {"mode": "explicit"}}, {}, EVERYTHING, {}),
    ],
)
def test_what_stands_beside_a_messages_body(
    own: dict[str, Any], beside: dict[str, Any], wishes: Any, supported: Any, told: dict[str, Any]
) -> None:
    original = {"model": "acme/m", "max_tokens": 5_000, "messages": HI, **own}
    asked = prompt(beside, original=original, max_output_tokens=5_000, **wishes)
    body = sent(asked, terms(supported))
    assert {name: value for name, value in body.items() if name not in ALWAYS} == told


def test_an_answer_to_continue_is_not_thought_about() -> None:
    original = {"max_tokens": 5_000, "messages": [*HI, assistant("And so")]}
    asked = prompt({}, original=original, max_output_tokens=5_000, reasoning_tokens=2_000)
    assert "thinking" not in sent(asked)


def test_verbosity_is_an_effort_where_it_is_listed() -> None:
    assert only({"verbosity": "low"}, {"verbosity"}) == {"output_config": {"effort": "low"}}
