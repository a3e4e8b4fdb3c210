"""What an endpoint is sent for a chat-shaped prompt, field by field."""

from typing import Any

import pytest

from tests.routing.upstreams.responses.prompts import USER, USUAL, call, prompt, sent, terms

FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
# Who may see the reasoning sees it, which takes a summary.
SHOWN = {"summary": "auto"}
SEALED = ["reasoning.encrypted_content"]


def test_a_plain_call_stores_nothing_and_asks_for_nothing() -> None:
    made = call(prompt())
    assert made.path == "/responses"
    assert dict(made.headers) == {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Authorization": "Bearer secret",
    }
    assert sent() == {
        "model": "up-1",
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "store": False,
        "stream": False,
    }


def test_a_stream_is_asked_for_and_no_credential_is_made_up() -> None:
    made = call(prompt(stream=True), terms(credential=None))
    headers = dict(made.headers)
    assert headers["Accept"] == "text/event-stream"
    assert "Authorization" not in headers
    assert sent(stream=True)["stream"] is True


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
        (
            {"logprobs": True, "top_logprobs": 3.0},
            {"top_logprobs": 3, "include": ["message.output_text.logprobs"]},
        ),
        (
            {
                "metadata": {"a": "b"},
                "user": "u",
                "session_id": "s",
                "trace": {},
                "models": ["a/b"],
            },
            {},
        ),
        ({"provider": {}, "plugins": [], "debug": {}, "route": None, "n": 1, "usage": {}}, {}),
        ({"response_format": {"type": "text"}}, {"text": {"format": {"type": "text"}}}),
        ({"response_format": {"type": "grammar", "grammar": "g"}}, {}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s"}}},
            {
                "text": {
                    "format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
                }
            },
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "s",
                        "schema": {"type": "object"},
                        "strict": True,
                        "description": "d",
                    },
                },
                "verbosity": "high",
            },
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "s",
                        "schema": {"type": "object"},
                        "strict": True,
                        "description": "d",
                    },
                    "verbosity": "high",
                }
            },
        ),
    ],
)
def test_parameters(given: dict[str, Any], expected: dict[str, Any]) -> None:
    made = sent(given)
    for name in ("model", "input", "store", "stream"):
        del made[name]
    assert made == expected


def test_nothing_but_the_conversation_goes_to_an_endpoint_that_lists_nothing() -> None:
    body = {
        "temperature": 1,
        "tools": [FUNCTION],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "reasoning": {"effort": "low"},
        "logprobs": True,
        "verbosity": "low",
    }
    made = sent(body, terms(supported=frozenset(), user_hash="u"), effort="low")
    assert set(made) == {"model", "input", "store", "stream"}


def test_listed_fields_beyond_the_vocabulary_are_forwarded_and_the_gateways_never() -> None:
    listed = USUAL | {"foo", "top_k", "metadata", "trace", "seed", "stop"}
    body = {"foo": [1], "top_k": 5.0, "metadata": {}, "trace": {"a": 1}, "seed": 1, "stop": "x"}
    made = sent(body, terms(supported=listed))
    assert made["foo"] == [1]
    assert made["top_k"] == 5
    assert not {"metadata", "trace", "seed", "stop"} & set(made)


@pytest.mark.parametrize(
    ("supported", "name"),
    [
        ({"user"}, "user"),
        ({"user", "safety_identifier"}, "safety_identifier"),
        ({"safety_identifier"}, "safety_identifier"),
    ],
)
def test_the_end_user_is_named_once_and_never_raw(supported: set[str], name: str) -> None:
    at = terms(supported=frozenset(supported), user_hash="hash")
    made = sent({"user": "me", "safety_identifier": "me"}, at)
    assert {key: made[key] for key in ("user", "safety_identifier") if key in made} == {
        name: "hash"
    }


@pytest.mark.parametrize(
    ("wanted", "cap", "expected"), [(None, 9, None), (5, None, 5), (5, 3, 3), (5, 9, 5)]
)
def test_the_output_cap_is_the_callers_inside_the_endpoints(
    wanted: int | None, cap: int | None, expected: int | None
) -> None:
    made = sent({"max_tokens": wanted}, terms(output_cap=cap), max_output_tokens=wanted)
    assert made.get("max_output_tokens") == expected
    assert "max_tokens" not in made


def test_function_tools_are_flat_and_not_strict_unless_asked() -> None:
    full = {"name": "g", "description": "d", "parameters": {}, "strict": True}
    tools = [
        FUNCTION,
        {"type": "function", "function": full, "cache_control": {"type": "ephemeral"}},
        {"type": "function", "function": {"name": "bare", "strict": None}},
        {"type": "router:datetime"},
    ]
    assert sent({"tools": tools})["tools"] == [
        FLAT,
        {"type": "function", **full},
        {"type": "function", "name": "bare", "parameters": None, "strict": False},
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "name": "f"},
        ),
        ({"type": "router:datetime"}, None),
        (None, None),
    ],
)
def test_tool_choice(choice: Any, expected: Any) -> None:
    body = {"tools": [FUNCTION], "tool_choice": choice, "parallel_tool_calls": False}
    made = sent(body)
    assert made.get("tool_choice") == expected
    assert made["parallel_tool_calls"] is False


def test_a_choice_without_tools_is_not_sent() -> None:
    made = sent({"tool_choice": "auto", "parallel_tool_calls": True, "tools": []})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(made)


def test_search_settings_become_the_search_tool_where_they_are_taken() -> None:
    place = {"type": "approximate", "approximate": {"city": "Ghent"}}
    body = {"web_search_options": {"search_context_size": "low", "user_location": place}}
    assert "tools" not in sent(body)
    assert sent(body, terms(supported=frozenset({"web_search_options"})))["tools"] == [
        {
            "type": "web_search",
            "search_context_size": "low",
            "user_location": {"type": "approximate", "city": "Ghent"},
        }
    ]


@pytest.mark.parametrize(
    ("body", "wishes", "reasoning", "include"),
    [
        ({}, {}, None, None),
        ({"reasoning": {}}, {}, SHOWN, SEALED),
        ({"reasoning_effort": "low"}, {"effort": "low"}, {"effort": "low", **SHOWN}, SEALED),
        (
            {"reasoning": {"effort": "high", "summary": "detailed"}},
            {"effort": "high"},
            {"effort": "high", "summary": "detailed"},
            SEALED,
        ),
        (
            {"reasoning": {"effort": "high", "summary": "auto", "exclude": True}},
            {"effort": "high", "exclude_reasoning": True},
            {"effort": "high"},
            None,
        ),
        ({"reasoning": {"enabled": False}}, {"effort": "none"}, {"effort": "none"}, None),
    ],
)
def test_reasoning(
    body: dict[str, Any], wishes: dict[str, Any], reasoning: Any, include: Any
) -> None:
    made = sent(body, **wishes)
    assert made.get("reasoning") == reasoning
    assert made.get("include") == include


@pytest.mark.parametrize("at", [terms(supported=frozenset({"reasoning_effort"})), None])
def test_either_word_of_the_catalogue_means_that_an_endpoint_reasons(at: Any) -> None:
    assert sent({"reasoning": {}}, at, effort="low")["reasoning"] == {"effort": "low", **SHOWN}


def test_the_callers_own_body_is_left_as_it_is() -> None:
    body = {
        "messages": [{"role": "system", "content": "s"}, USER],
        "tools": [FUNCTION],
        "reasoning": {"effort": "low"},
    }
    before = repr(body)
    sent(body, effort="low")
    assert repr(body) == before
