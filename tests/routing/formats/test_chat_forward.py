"""The body an upstream receives: an allow-list over the caller's own JSON."""

from typing import Any

import pytest

from routing.formats.chat.forward import GATEWAY_FIELDS, forwarded_body
from routing.formats.chat.request import PARAMETER_VOCABULARY
from tests.routing.formats.chat_bodies import CALL, DATA_URL, FUNCTION, USER, accepted

TOOL_WORDS = "tools tool_choice parallel_tool_calls"


def forward(
    supported: str = "",
    *,
    cap: int | None = None,
    user_hash: str | None = None,
    stream_usage: bool = True,
    **fields: Any,
) -> dict[str, Any]:
    return forwarded_body(
        accepted(**fields),
        upstream_model="small-1",
        supported=frozenset(supported.split()),
        user_hash=user_hash,
        stream_usage=stream_usage,
        max_tokens_cap=cap,
    )


def extras(supported: str = "", **fields: Any) -> dict[str, Any]:
    """What is sent beside the model and the messages."""
    sent = forward(supported, **fields)
    assert sent.pop("model") == "small-1"
    sent.pop("messages")
    return sent


def sent_message(message: dict[str, Any], supported: str = "") -> dict[str, Any]:
    [sent] = forward(supported, messages=[message])["messages"]
    result: dict[str, Any] = sent
    return result


def test_messages_that_need_no_change_are_the_callers_own() -> None:
    messages = [USER, {"role": "assistant", "content": "a"}, {"role": "system", "content": "s"}]
    assert forward(messages=messages)["messages"] is messages


def test_only_the_changed_message_is_copied() -> None:
    messages = [USER, {"role": "developer", "content": "d"}, USER]
    sent = forward(messages=messages)["messages"]
    assert sent[1] == {"role": "system", "content": "d"}
    assert sent[0] is messages[0]
    assert messages[1]["role"] == "developer"
    assert forward("developer", messages=messages)["messages"] is messages


def test_an_assistant_message_loses_what_upstreams_refuse() -> None:
    details = [{"type": "reasoning.future", "x": None}]
    message = {
        "role": "assistant",
        "content": None,
        "model": "a/b",
        "refusal": None,
        "tool_calls": [],
        "reasoning_details": details,
    }
    sent = sent_message(message)
    assert sent == {"role": "assistant", "content": None, "reasoning_details": details}
    assert sent["reasoning_details"] is details
    assert "model" in message


def test_tool_calls_and_their_answers_pass_through() -> None:
    messages = [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    assert forward(messages=messages)["messages"] is messages


def test_parts_are_put_into_the_words_upstreams_know() -> None:
    message = {
        "role": "user",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "input_video", "video_url": {"url": "http://x/"}},
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "original"}},
            {"type": "text", "text": "y", "cache_control": {"type": "ephemeral"}},
        ],
    }
    sent = sent_message(message)["content"]
    assert sent == [
        {"type": "text", "text": "x"},
        {"type": "video_url", "video_url": {"url": "http://x/"}},
        {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "high"}},
        {"type": "text", "text": "y"},
    ]
    assert message["content"][1]["type"] == "input_video"  # type: ignore[index]  # A plain test literal.
    kept = sent_message(message, "cache_control")["content"]
    assert kept[3] is message["content"][3]


def test_only_supported_parameters_are_sent() -> None:
    fields = {"temperature": 0.5, "top_p": 0.9, "min_p": None, "foo": 1, "bar": [2]}
    assert extras("temperature min_p bar", **fields) == {"temperature": 0.5, "bar": [2]}
    assert extras("", **fields) == {}


@pytest.mark.parametrize("name", sorted(GATEWAY_FIELDS - {"messages", "model", "user", "stream"}))
def test_what_addresses_the_gateway_is_never_sent(name: str) -> None:
    values: dict[str, Any] = {
        "models": ["a/b"],
        "route": "sort",
        "provider": {"zdr": True},
        "plugins": [{"id": "moderation"}],
        "transforms": ["x"],
        "stream_options": {"include_usage": True},
        "usage": {"include": True},
        "n": 1,
        "max_tool_calls": 3,
        "stop_server_tools_when": [{"type": "max_cost", "max_cost_in_dollars": 1}],
        "structured_outputs": True,
        "debug": {"echo_upstream_body": True},
        "metadata": {"a": "b"},
        "trace": {"a": "b"},
    }
    assert extras(name, **{name: values.get(name, "x")}) == {}


def test_integers_written_as_floats_arrive_as_integers() -> None:
    sent = extras(
        "top_k seed max_tokens top_logprobs logprobs temperature",
        top_k=5.0,
        seed=-7.0,
        max_tokens=9.0,
        logprobs=True,
        top_logprobs=2.0,
        temperature=1.0,
    )
    assert [repr(sent[name]) for name in ("top_k", "seed", "max_tokens", "top_logprobs")] == [
        "5",
        "-7",
        "9",
        "2",
    ]
    assert extras("top_k", top_k=10**30) == {"top_k": 10**30}


@pytest.mark.parametrize(
    ("supported", "fields", "cap", "sent"),
    [
        ("max_tokens", {"max_tokens": 9}, None, {"max_tokens": 9}),
        ("max_tokens", {"max_completion_tokens": 9}, None, {"max_tokens": 9}),
        ("max_completion_tokens", {"max_tokens": 9}, None, {"max_completion_tokens": 9}),
        (
            "max_tokens max_completion_tokens",
            {"max_tokens": 9},
            None,
            {"max_tokens": 9},
        ),
        (
            "max_tokens max_completion_tokens",
            {"max_completion_tokens": 9, "max_tokens": 3},
            None,
            {"max_completion_tokens": 9},
        ),
        ("", {"max_completion_tokens": 9}, None, {"max_tokens": 9}),
        ("max_tokens", {"max_tokens": 9}, 5, {"max_tokens": 5}),
        ("max_tokens", {"max_tokens": 9}, 50, {"max_tokens": 9}),
        ("max_tokens", {"max_tokens": None}, 5, {}),
        ("max_tokens", {}, 5, {}),
    ],
)
def test_the_output_limit_is_sent_once_in_a_spelling_the_endpoint_takes(
    supported: str, fields: dict[str, Any], cap: int | None, sent: dict[str, Any]
) -> None:
    assert extras(supported, cap=cap, **fields) == sent


def test_row_7_top_logprobs_needs_logprobs() -> None:
    both = "logprobs top_logprobs"
    assert extras(both, top_logprobs=5) == {}
    assert extras(both, top_logprobs=5, logprobs=False) == {"logprobs": False}
    assert extras(both, top_logprobs=5, logprobs=True) == {"logprobs": True, "top_logprobs": 5}
    assert extras("top_logprobs", top_logprobs=5, logprobs=True) == {}
    assert extras("logprobs", top_logprobs=5, logprobs=True) == {"logprobs": True}


def test_stop_keeps_its_form() -> None:
    assert extras("stop", stop="a") == {"stop": "a"}
    assert extras("stop", stop=["a", "b"]) == {"stop": ["a", "b"]}
    assert extras("stop", stop=[]) == {}


def test_tools_are_sent_with_the_keys_upstreams_know() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "strict": None, "parameters": {"x": None}, "zz": 1},
        "cache_control": {"type": "ephemeral"},
        "zz": 1,
    }
    clean = {"type": "function", "function": {"name": "f", "parameters": {"x": None}}}
    fields = {"tools": [tool], "tool_choice": "auto", "parallel_tool_calls": False}
    assert extras(TOOL_WORDS, **fields) == {**fields, "tools": [clean]}
    assert extras("tools", **fields) == {"tools": [clean]}
    assert extras("tool_choice parallel_tool_calls", **fields) == {}
    marked = extras("tools cache_control", tools=[tool])["tools"][0]
    assert marked["cache_control"] == {"type": "ephemeral"}


def test_a_choice_without_tools_is_not_sent() -> None:
    assert extras(TOOL_WORDS, tool_choice="none", parallel_tool_calls=True) == {}
    assert extras(TOOL_WORDS, tools=[], tool_choice="auto") == {}


def test_server_tools_never_reach_the_upstream() -> None:
    search = {"type": "web_search"}
    assert extras(TOOL_WORDS, tools=[search], tool_choice=search) == {}
    assert extras(TOOL_WORDS, tools=[search, FUNCTION], tool_choice=search) == {"tools": [FUNCTION]}


def test_a_named_choice_is_rebuilt() -> None:
    choice = {"type": "function", "function": {"name": "f", "zz": 1}, "zz": 1}
    sent = extras(TOOL_WORDS, tools=[FUNCTION], tool_choice=choice)["tool_choice"]
    assert sent == {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"type": "text", "zz": 1}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        ({"type": "grammar", "grammar": "g"}, {"type": "grammar", "grammar": "g"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": None, "schema": {}}},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        ),
    ],
)
def test_the_response_format_is_normalised(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert extras("response_format", response_format=given) == {"response_format": sent}
    assert extras("", response_format=given) == {}


@pytest.mark.parametrize(
    ("supported", "fields", "sent"),
    [
        ("", {"reasoning": {"effort": "low"}, "reasoning_effort": "low"}, {}),
        ("reasoning_effort", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("reasoning_effort", {"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ("reasoning_effort", {"reasoning": {"enabled": True}}, {"reasoning_effort": "medium"}),
        ("reasoning_effort", {"reasoning": {"exclude": True}}, {}),
        ("reasoning", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        (
            "reasoning",
            {
                "reasoning": {"max_tokens": 9.0, "summary": None, "zz": 1},
                "include_reasoning": False,
            },
            {"reasoning": {"max_tokens": 9, "exclude": True}},
        ),
        ("reasoning", {"reasoning": {"enabled": False}}, {"reasoning": {"enabled": False}}),
        (
            "reasoning reasoning_effort",
            {"reasoning": {"effort": "low"}},
            {"reasoning": {"effort": "low"}},
        ),
        (
            "reasoning reasoning_effort",
            {"reasoning_effort": "low"},
            {"reasoning_effort": "low"},
        ),
        ("include_reasoning", {"include_reasoning": True}, {"include_reasoning": True}),
        ("include_reasoning", {"include_reasoning": False}, {"include_reasoning": False}),
        ("include_reasoning", {"reasoning": {"exclude": True}}, {"include_reasoning": False}),
        ("include_reasoning", {"reasoning_effort": "low"}, {}),
    ],
)
def test_reasoning_is_sent_in_the_words_the_endpoint_takes(
    supported: str, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert extras(supported, **fields) == sent


def test_tier_user_and_stream() -> None:
    assert extras("service_tier", service_tier="fast") == {"service_tier": "priority"}
    assert extras("", service_tier="fast") == {}
    assert extras("user", user="me", user_hash="h") == {"user": "h"}
    assert extras("user", user="me") == {}
    assert extras("", user="me", user_hash="h") == {}
    assert extras(stream=True) == {"stream": True, "stream_options": {"include_usage": True}}
    assert extras(stream=True, stream_usage=False) == {"stream": True}
    assert extras(stream=False) == {}


def test_every_word_of_the_vocabulary_reaches_an_endpoint_that_takes_it() -> None:
    fields: dict[str, Any] = {
        **dict.fromkeys(
            ("temperature", "top_p", "min_p", "top_a", "frequency_penalty", "presence_penalty"), 0
        ),
        "repetition_penalty": 1,
        "top_k": 5,
        "seed": 5,
        "max_completion_tokens": 5,
        "logit_bias": {"5": 1},
        "logprobs": True,
        "top_logprobs": 5,
        "prediction": {"type": "content", "content": "x"},
        "response_format": {"type": "text"},
        "stop": "x",
        "tools": [FUNCTION],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low"},
        "web_search_options": {},
        "verbosity": "low",
    }
    assert extras(" ".join(PARAMETER_VOCABULARY), **fields) == fields
