"""The body an upstream receives: an allow-list over the caller's own JSON."""

from typing import Any

import pytest

from routing.formats.chat.forward import GATEWAY_FIELDS, build_forwarded_body
from routing.formats.chat.request import PARAMETER_VOCABULARY
from tests.routing.formats.chat_bodies import CALL, DATA_URL, FUNCTION, USER, parse_fields

TOOL_WORDS = "tools tool_choice parallel_tool_calls"
EPHEMERAL = {"type": "ephemeral"}


def forward(
    supported: str = "",
    *,
    cap: int | None = None,
    user_hash: str | None = None,
    stream_usage: bool = True,
    **fields: Any,
) -> dict[str, Any]:
    return build_forwarded_body(
        parse_fields(**fields),
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


def sent_messages(messages: list[dict[str, Any]], supported: str = "") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = forward(supported, messages=messages)["messages"]
    return sent


def test_messages_that_need_no_change_are_the_callers_own() -> None:
    said = [USER, {"role": "assistant", "content": "a"}, {"role": "system", "content": "s"}]
    called: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    for messages in (said, [called, result]):
        assert sent_messages(messages) is messages


def test_only_the_changed_message_is_copied() -> None:
    messages = [USER, {"role": "developer", "content": "d"}, USER]
    sent = sent_messages(messages)
    assert sent[1] == {"role": "system", "content": "d"}
    assert sent[0] is messages[0]
    assert messages[1]["role"] == "developer"
    assert sent_messages(messages, "developer") is messages


def test_an_assistant_message_loses_what_upstreams_refuse() -> None:
    details = [{"type": "reasoning.future", "x": None}]
    kept = {"role": "assistant", "content": None, "reasoning_details": details}
    message = {**kept, "model": "a/b", "refusal": None, "tool_calls": []}
    [sent] = sent_messages([message])
    assert sent == kept
    assert sent["reasoning_details"] is details
    assert "model" in message


def test_parts_are_put_into_the_words_upstreams_know() -> None:
    text = {"type": "text", "text": "x"}
    marked = {**text, "cache_control": EPHEMERAL}
    video = {"type": "input_video", "video_url": {"url": "http://x/"}}
    image = {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "original"}}
    message = {"role": "user", "content": [text, video, image, marked]}
    known = {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "high"}}
    [sent] = sent_messages([message])
    assert sent["content"] == [text, {**video, "type": "video_url"}, known, text]
    assert message["content"] == [text, {**video, "type": "input_video"}, image, marked]
    assert sent_messages([message], "cache_control")[0]["content"][3] is marked


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
    integers = {"top_k": 5, "seed": -7, "max_tokens": 9, "top_logprobs": 2}
    floats = {name: float(value) for name, value in integers.items()}
    sent = extras(" ".join([*integers, "logprobs"]), logprobs=True, **floats)
    assert repr({name: sent[name] for name in integers}) == repr(integers)
    assert extras("top_k", top_k=10**30) == {"top_k": 10**30}


OLD, NEW = {"max_tokens": 9}, {"max_completion_tokens": 9}
LOW = {"reasoning": {"effort": "low"}}
HIDDEN_LOW = {"reasoning": {"effort": "low", "exclude": True}}
PLAIN_LOW = {"reasoning_effort": "low"}
SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
NULL_SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "strict": None, "schema": {}}}
GRAMMAR = {"type": "grammar", "grammar": "g"}
TOP = {"top_logprobs": 5, "logprobs": True}
WEB = {"type": "web_search"}


def form(response_format: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": response_format}


# The words an endpoint supports, what the caller gives, and what is sent of it.
SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # The output limit goes once, in a spelling the endpoint takes.
    ("max_tokens", OLD, OLD),
    ("max_tokens", NEW, OLD),
    ("max_completion_tokens", OLD, NEW),
    ("max_tokens max_completion_tokens", OLD, OLD),
    ("max_tokens max_completion_tokens", {**NEW, "max_tokens": 3}, NEW),
    ("", NEW, OLD),
    ("max_tokens", {**OLD, "cap": 5}, {"max_tokens": 5}),
    ("max_tokens", {**OLD, "cap": 50}, OLD),
    ("max_tokens", {"max_tokens": None, "cap": 5}, {}),
    ("max_tokens", {"cap": 5}, {}),
    # Row 7: top_logprobs needs logprobs.
    ("logprobs top_logprobs", {"top_logprobs": 5}, {}),
    ("logprobs top_logprobs", {"top_logprobs": 5, "logprobs": False}, {"logprobs": False}),
    ("logprobs top_logprobs", TOP, TOP),
    ("top_logprobs", TOP, {}),
    ("logprobs", TOP, {"logprobs": True}),
    # Stop strings keep their form.
    ("stop", {"stop": "a"}, {"stop": "a"}),
    ("stop", {"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
    ("stop", {"stop": []}, {}),
    # A choice goes with tools alone, and server tools never.
    (TOOL_WORDS, {"tool_choice": "none", "parallel_tool_calls": True}, {}),
    (TOOL_WORDS, {"tools": [], "tool_choice": "auto"}, {}),
    (TOOL_WORDS, {"tools": [WEB], "tool_choice": WEB}, {}),
    (TOOL_WORDS, {"tools": [WEB, FUNCTION], "tool_choice": WEB}, {"tools": [FUNCTION]}),
    # The response format is normalised.
    ("response_format", form({"type": "text", "zz": 1}), form({"type": "text"})),
    ("response_format", form({"type": "json_object"}), form({"type": "json_object"})),
    ("response_format", form(GRAMMAR), form(GRAMMAR)),
    ("response_format", form(NULL_SHAPE), form(SHAPE)),
    ("", form(SHAPE), {}),
    # Reasoning goes in the words the endpoint takes.
    ("", {**LOW, **PLAIN_LOW}, {}),
    ("reasoning_effort", PLAIN_LOW, PLAIN_LOW),
    ("reasoning_effort", LOW, PLAIN_LOW),
    ("reasoning_effort", {"reasoning": {"enabled": True}}, {"reasoning_effort": "medium"}),
    ("reasoning_effort", {"reasoning": {"exclude": True}}, {}),
    ("reasoning", PLAIN_LOW, LOW),
    ("reasoning", {"reasoning": {"max_tokens": 9.0, "zz": 1}}, {"reasoning": {"max_tokens": 9}}),
    ("reasoning", {"reasoning": {"effort": "low", "summary": None}}, LOW),
    ("reasoning", {**LOW, "include_reasoning": False}, HIDDEN_LOW),
    ("reasoning", {"reasoning": {"enabled": False}}, {"reasoning": {"enabled": False}}),
    ("reasoning reasoning_effort", LOW, LOW),
    ("reasoning reasoning_effort", PLAIN_LOW, PLAIN_LOW),
    ("include_reasoning", {"include_reasoning": True}, {"include_reasoning": True}),
    ("include_reasoning", {"include_reasoning": False}, {"include_reasoning": False}),
    ("include_reasoning", {"reasoning": {"exclude": True}}, {"include_reasoning": False}),
    ("include_reasoning", PLAIN_LOW, {}),
    # Tier, user and stream.
    ("service_tier", {"service_tier": "fast"}, {"service_tier": "priority"}),
    ("", {"service_tier": "fast"}, {}),
    ("user", {"user": "me", "user_hash": "h"}, {"user": "h"}),
    ("user", {"user": "me"}, {}),
    ("", {"user": "me", "user_hash": "h"}, {}),
    ("", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ("", {"stream": True, "stream_usage": False}, {"stream": True}),
    ("", {"stream": False}, {}),
]


@pytest.mark.parametrize(("supported", "fields", "sent"), SENT)
def test_a_parameter_is_sent_in_a_form_the_endpoint_takes(
    supported: str, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert extras(supported, **fields) == sent


def test_tools_and_a_named_choice_are_sent_with_the_keys_upstreams_know() -> None:
    function = {"name": "f", "parameters": {"x": None}}
    clean = {"type": "function", "function": function}
    tool = {**clean, "function": {**function, "strict": None, "zz": 1}, "zz": 1}
    tool |= {"cache_control": EPHEMERAL}
    fields = {"tools": [tool], "tool_choice": "auto", "parallel_tool_calls": False}
    assert extras(TOOL_WORDS, **fields) == {**fields, "tools": [clean]}
    assert extras("tools", **fields) == {"tools": [clean]}
    assert extras("tool_choice parallel_tool_calls", **fields) == {}
    marked = extras("tools cache_control", tools=[tool])["tools"]
    assert marked == [{**clean, "cache_control": EPHEMERAL}]
    choice = {"type": "function", "function": {"name": "f", "zz": 1}, "zz": 1}
    sent = extras(TOOL_WORDS, tools=[FUNCTION], tool_choice=choice)["tool_choice"]
    assert sent == {"type": "function", "function": {"name": "f"}}


def test_every_word_of_the_vocabulary_reaches_an_endpoint_that_takes_it() -> None:
    zero = ("temperature", "top_p", "min_p", "top_a", "frequency_penalty", "presence_penalty")
    five = ("top_k", "seed", "max_completion_tokens", "top_logprobs")
    fields: dict[str, Any] = {
        **dict.fromkeys(zero, 0),
        **dict.fromkeys(five, 5),
        "repetition_penalty": 1,
        "logit_bias": {"5": 1},
        "logprobs": True,
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
