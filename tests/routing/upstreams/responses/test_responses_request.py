"""What an endpoint is sent for a chat-shaped prompt, field by field."""

from typing import Any

import pytest

from tests.routing.upstreams.responses.prompts import (
    SEALED,
    USER,
    USUAL,
    call,
    passed_body,
    prompt,
    sent_body,
    terms,
)

FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
ALWAYS = {"model", "input", "store", "stream"}
LOGPROBS = "message.output_text.logprobs"


def only(body: dict[str, Any], at: Any = None, **changes: Any) -> dict[str, Any]:
    """What is sent beside what is always there."""
    made = sent_body(body, at, **changes)
    return {name: value for name, value in made.items() if name not in ALWAYS}


def test_a_plain_call_stores_nothing_and_asks_for_nothing() -> None:
    made = call(prompt())
    assert made.path == "/responses"
    assert dict(made.headers) == {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Authorization": "Bearer secret",
    }
    item = {"type": "message", "role": "user", "content": "hi"}
    assert sent_body() == {"model": "up-1", "input": [item], "store": False, "stream": False}


def test_a_stream_is_asked_for_and_no_credential_is_made_up() -> None:
    headers = dict(call(prompt(stream=True), terms(credential=None)).headers)
    assert headers == {"Content-Type": "application/json", "Accept": "text/event-stream"}
    assert sent_body(stream=True)["stream"] is True


SCHEMA: dict[str, Any] = {"name": "s", "schema": {"type": "object"}}
STRICT = {**SCHEMA, "strict": True, "description": "d"}


def response_format(kind: str, **fields: Any) -> dict[str, Any]:
    return {"response_format": {"type": kind, **fields}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
        ({"temperature": None}, {}),
        ({"top_k": 5, "seed": 1, "foo": 2}, {}),
        ({"service_tier": "fast"}, {"service_tier": "priority"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"top_logprobs": 3}, {}),
        ({"logprobs": False, "top_logprobs": 3}, {}),
        ({"logprobs": True, "top_logprobs": 3.0}, {"top_logprobs": 3, "include": [LOGPROBS]}),
        ({"metadata": {"a": "b"}, "user": "u", "session_id": "s", "trace": {}, "models": []}, {}),
        ({"provider": {}, "plugins": [], "debug": {}, "route": None, "n": 1, "usage": {}}, {}),
        (response_format("text"), {"text": {"format": {"type": "text"}}}),
        (response_format("grammar", grammar="g"), {}),
        (
            response_format("json_schema", json_schema={"name": "s"}),
            {"text": {"format": {"type": "json_schema", **SCHEMA}}},
        ),
        (
            {**response_format("json_schema", json_schema=STRICT), "verbosity": "high"},
            {"text": {"format": {"type": "json_schema", **STRICT}, "verbosity": "high"}},
        ),
    ],
)
def test_parameters(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert only(given) == expected


def test_nothing_but_the_conversation_goes_to_an_endpoint_that_lists_nothing() -> None:
    body = {
        "temperature": 1,
        "tools": [FUNCTION],
        "tool_choice": "auto",
        **response_format("json_object"),
    }
    body |= {"reasoning": {"effort": "low"}, "logprobs": True, "verbosity": "low"}
    assert only(body, terms(set(), user_hash="u"), effort="low") == {}


def test_listed_fields_beyond_the_vocabulary_are_forwarded_and_the_gateways_never() -> None:
    listed = USUAL | {"foo", "top_k", "metadata", "trace", "seed", "stop"}
    body = {"foo": [1], "top_k": 5.0, "metadata": {}, "trace": {"a": 1}, "seed": 1, "stop": "x"}
    assert only(body, terms(listed)) == {"foo": [1], "top_k": 5}


def test_the_end_user_is_named_once_and_never_raw() -> None:
    body, both = {"user": "me", "safety_identifier": "me"}, {"user", "safety_identifier"}
    assert only(body, terms({"user"}, user_hash="hash")) == {"user": "hash"}
    for listed in (both, both - {"user"}):
        assert only(body, terms(listed, user_hash="hash")) == {"safety_identifier": "hash"}


@pytest.mark.parametrize(
    ("wanted", "cap", "expected"), [(None, 9, None), (5, None, 5), (5, 3, 3), (5, 9, 5)]
)
def test_the_output_cap_is_the_callers_inside_the_endpoints(
    wanted: int | None, cap: int | None, expected: int | None
) -> None:
    made = only({"max_tokens": wanted}, terms(output_cap=cap), max_output_tokens=wanted)
    assert made == ({"max_output_tokens": expected} if expected else {})


def test_function_tools_are_flat_and_not_strict_unless_asked() -> None:
    full = {"name": "g", "description": "d", "parameters": {}, "strict": True}
    tools = [
        FUNCTION,
        {"type": "function", "function": full, "cache_control": {"type": "ephemeral"}},
        {"type": "function", "function": {"name": "bare", "strict": None}},
        {"type": "router:datetime"},
    ]
    assert only({"tools": tools})["tools"] == [
        FLAT,
        {"type": "function", **full},
        {"type": "function", "name": "bare", "parameters": None, "strict": False},
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        *[(word, word) for word in ("auto", "none", "required")],
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "router:datetime"}, None),
        (None, None),
    ],
)
def test_tool_choice(choice: Any, expected: Any) -> None:
    made = only({"tools": [FUNCTION], "tool_choice": choice, "parallel_tool_calls": False})
    assert made.get("tool_choice") == expected
    assert made["parallel_tool_calls"] is False


def test_a_choice_without_tools_is_not_sent() -> None:
    assert only({"tool_choice": "auto", "parallel_tool_calls": True, "tools": []}) == {}


def test_search_settings_become_the_search_tool_where_they_are_taken() -> None:
    place = {"type": "approximate", "approximate": {"city": "Ghent"}}
    body = {"web_search_options": {"search_context_size": "low", "user_location": place}}
    where = {"type": "approximate", "city": "Ghent"}
    tool = {"type": "web_search", "search_context_size": "low", "user_location": where}
    assert only(body) == {}
    assert only(body, terms({"web_search_options"})) == {"tools": [tool]}


LOW, HIGH, NONE = ({"effort": word} for word in ("low", "high", "none"))
# Who may see the reasoning sees it, which takes a summary.
AUTO, DETAILED = {"summary": "auto"}, {"summary": "detailed"}
UNSEEN = {"exclude_reasoning": True}


@pytest.mark.parametrize(
    ("body", "wishes", "reasoning", "include"),
    [
        ({}, {}, None, None),
        ({"reasoning": {}}, {}, AUTO, [SEALED]),
        ({"reasoning_effort": "low"}, LOW, {**LOW, **AUTO}, [SEALED]),
        ({"reasoning": {**HIGH, **DETAILED}}, HIGH, {**HIGH, **DETAILED}, [SEALED]),
        ({"reasoning": {**HIGH, **AUTO, "exclude": True}}, {**HIGH, **UNSEEN}, HIGH, None),
        ({"reasoning": {"enabled": False}}, NONE, NONE, None),
    ],
)
@pytest.mark.parametrize("word", ["reasoning", "reasoning_effort"])
def test_reasoning_where_either_word_of_the_catalogue_lists_it(
    body: dict[str, Any], wishes: dict[str, Any], reasoning: Any, include: Any, word: str
) -> None:
    made = sent_body(body, terms({word}), **wishes)
    assert (made.get("reasoning"), made.get("include")) == (reasoning, include)


ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E", "new": 1},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "x"},
    {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}},
]


def test_the_callers_own_body_is_left_as_it_is() -> None:
    messages = [{"role": "system", "content": "s"}, USER]
    body = {"messages": messages, "tools": [FUNCTION], "reasoning": {"effort": "low"}}
    original = {"input": ITEMS, "include": [SEALED], "reasoning": {"effort": "low"}}
    before = repr((body, original))
    sent_body(body, effort="low")
    passed_body(original, effort="low")
    assert repr((body, original)) == before


# A caller who speaks the same format.


def test_a_choice_among_tools_of_an_item_goes_with_it() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}
    assert passed_body({"input": [added], "tool_choice": "required"})["tool_choice"] == "required"


@pytest.mark.parametrize("supported", [{"logprobs"}, set()])
def test_log_probabilities_are_asked_of_those_who_have_them(supported: set[str]) -> None:
    told = {"include": [LOGPROBS]} if supported else {}
    assert passed_body({"include": [LOGPROBS]}, terms(supported)) == told


def test_items_and_tools_go_as_they_came() -> None:
    tools = [{"type": "custom", "name": "t", "format": {"type": "text"}}, {"type": "mcp", "x": [1]}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}
    given = {"tools": tools, "tool_choice": choice, "instructions": "i"}
    assert passed_body({"input": ITEMS, **given}) == {**given, "include": [SEALED]}


def test_the_gateways_fields_stay_here() -> None:
    gateways: dict[str, Any] = {
        "models": ["a/b"],
        "provider": {},
        "plugins": [],
        "route": "fallback",
    }
    gateways |= {"preset": "p", "session_id": "s", "trace": {}, "user": "me", "debug": {}, "foo": 1}
    gateways |= {"safety_identifier": "me", "stop_server_tools_when": [], "metadata": {"a": "b"}}
    gateways |= {"store": False, "background": False, "previous_response_id": None, "prompt": None}
    gateways |= {"truncation": "auto", "max_tool_calls": 3}
    assert passed_body(gateways, terms(user_hash="hash")) == {"user": "hash", "include": [SEALED]}


def test_what_the_endpoint_does_not_list_is_left_out() -> None:
    original = {"temperature": 1, "top_p": 0.5, "top_logprobs": 2, "service_tier": "flex"}
    original |= {"tools": [{"type": "mcp"}], "tool_choice": "auto", "parallel_tool_calls": True}
    original |= {"text": {"format": {"type": "text"}, "verbosity": "low"}, "include": [SEALED]}
    assert (
        passed_body({**original, "reasoning": {"effort": "low"}}, terms(set()), effort="low") == {}
    )


def test_what_it_lists_is_sent() -> None:
    include = ["code_interpreter_call.outputs", SEALED]
    plain = {"temperature": 1, "foo": 1, "seed": 4, "include": include}
    text = {"format": {"type": "text"}, "verbosity": None}
    original = {**plain, "top_logprobs": 2.0, "service_tier": "fast", "text": text}
    at = terms(USUAL | {"foo", "seed"}, output_cap=20)
    told = {**plain, "top_logprobs": 2, "service_tier": "priority", "max_output_tokens": 20}
    told["text"] = {"format": {"type": "text"}}
    assert passed_body({**original, "max_output_tokens": 50}, at, max_output_tokens=50) == told


MODE = {"mode": "pro", "context": "auto"}


@pytest.mark.parametrize(
    ("given", "wishes", "reasoning", "include"),
    [
        (None, {}, None, [SEALED]),
        ({"effort": None, **AUTO}, {}, AUTO, [SEALED]),
        ({"enabled": True}, LOW, LOW, [SEALED]),
        ({"enabled": False}, NONE, NONE, None),
        ({"max_tokens": 20, **MODE}, LOW, {**LOW, **MODE}, [SEALED]),
    ],
)
def test_reasoning_is_resolved_and_always_sealed(
    given: Any, wishes: dict[str, Any], reasoning: Any, include: Any
) -> None:
    made = passed_body({"reasoning": given}, **wishes)
    assert (made.get("reasoning"), made.get("include")) == (reasoning, include)


def test_items_that_mean_nothing_to_the_upstream_are_left_out() -> None:
    def reasoning_item(id: str, **fields: Any) -> dict[str, Any]:
        return {"type": "reasoning", "id": id, "summary": [], **fields}

    content = [{"type": "reasoning_text", "text": "t"}]
    kept = [
        reasoning_item("rs_1", encrypted_content="E"),
        reasoning_item("rs_4", content=content),
        USER,
    ]
    dropped = [
        # Made here.
        reasoning_item(f"rs_{'a' * 32}_0", content=content),
        reasoning_item("rs_2", content=content, format="unknown"),
        {**reasoning_item("rs_3"), "summary": [{"type": "summary_text", "text": "s"}]},
        {"type": "router:datetime", "id": "x", "status": "completed"},
        reasoning_item("rs_5", signature="s", format="anthropic-claude-v1"),
    ]
    items = [*dropped, {**kept[0], "format": "openai-responses-v1"}, *kept[1:]]
    whole = {"model": "acme/small", "input": items}
    assert sent_body(original=whole)["input"] == kept
