"""The chat format: what it answers, how it streams, and what is no request at all."""

import json
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.routing.simulator.conftest import Asked

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}},
    "required": ["city", "days"],
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
USAGE: Any = {"stream_options": {"include_usage": True}}


def say(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def choice_of(chat: Asked, model: str = "sim/small", **body: Any) -> Any:
    return chat.document(model, **body)["choices"][0]


def chunks(chat: Asked, model: str = "sim/small", **body: Any) -> list[dict[str, Any]]:
    *events, done = chat.events(model, **body)
    assert done == ("[DONE]", None)
    return [value for _, value in events]


def deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["choices"][0]["delta"] for event in events if event["choices"]]


def test_an_answer_says_that_it_is_simulated_and_counts_its_tokens(chat):
    answer = chat.document(messages=say("Hello there"))
    [choice] = answer["choices"]
    assert choice["message"]["content"] == "Simulated answer to: Hello there"
    assert choice["finish_reason"] == "stop"
    counts = [answer["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total")]
    assert counts == [3, 5, 8]
    assert answer["object"] == "chat.completion"
    assert answer["system_fingerprint"] == "fp_simulated"
    assert "service_tier" not in answer
    assert chat.document(service_tier="flex")["service_tier"] == "flex"


def test_a_stream_has_role_pieces_finish_usage_and_done_in_this_order(chat):
    events = chunks(chat, **USAGE)
    said = deltas(events)
    assert said[0] == {"role": "assistant", "content": "", "refusal": None}
    words = ["Simulated", " answer", " to:", " Hello", " there"]
    assert [delta["content"] for delta in said[1:-1]] == words
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert (events[-1]["choices"], events[-1]["usage"]["completion_tokens"]) == ([], 5)
    assert all(event["usage"] is None for event in events[:-1])
    assert len({(event["id"], event["model"], event["created"]) for event in events}) == 1
    assert all("usage" not in event for event in chunks(chat))


@pytest.mark.parametrize(
    ("body", "words", "finish"),
    [
        ({"messages": say("Please say 1 words")}, 1, "stop"),
        ({"messages": say("Please say 500 words")}, 500, "stop"),
        ({"messages": say("say 10 words"), "max_tokens": 4}, 4, "length"),
        ({"max_completion_tokens": 4, "max_tokens": 9}, 4, "length"),
        ({"messages": say("one two three"), "stop": ["three", " two"]}, 4, "stop"),
    ],
)
def test_an_answer_is_as_long_as_was_wanted(chat, body, words, finish):
    answer = chat.document(**body)
    [choice] = answer["choices"]
    assert len(choice["message"]["content"].split(" ")) == words
    assert (choice["finish_reason"], answer["usage"]["completion_tokens"]) == (finish, words)


@pytest.mark.parametrize(
    "ask",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "now call weather"}]}]},
    ],
)
def test_a_tool_is_called_with_arguments_from_its_schema(chat, ask):
    choice = choice_of(chat, tools=[WEATHER], **ask)
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    for word in ("auto", "none"):
        assert "tool_calls" not in choice_of(chat, tools=[WEATHER], tool_choice=word)["message"]
    assert json.loads(call["function"]["arguments"]) == {"city": "simulated", "days": 3}


def test_a_streamed_tool_call_names_itself_once_and_comes_in_fragments(chat):
    events = chunks(chat, tools=[WEATHER], tool_choice="required")
    calls = [delta["tool_calls"][0] for delta in deltas(events) if "tool_calls" in delta]
    assert calls[0]["function"] == {"name": "weather", "arguments": ""}
    assert [set(call) for call in calls[1:]] == [{"index", "function"}] * (len(calls) - 1)
    assert len(calls) > 2
    joined = "".join(call["function"]["arguments"] for call in calls)
    assert json.loads(joined) == {"city": "simulated", "days": 3}


def answer_in_shape(chat: Asked, **schema: Any) -> Any:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    return json.loads(choice_of(chat, response_format=wanted)["message"]["content"])


def test_a_schema_is_answered_with_a_fitting_document(chat):
    properties = {
        "color": {"enum": ["red", "blue"]},
        "score": {"type": "number", "minimum": 0.5},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
    }
    tag = {"type": "string", "maxLength": 3}
    whole = {"properties": properties, "required": [*properties], "$defs": {"tag": tag}}
    fitting = {"color": "red", "score": 0.5, "tags": ["sim", "sim"], "next": None}
    assert answer_in_shape(chat, type="object", **whole) == fitting
    # One that refers to itself still ends.
    assert answer_in_shape(
        chat, type="object", properties={"next": {"$ref": "#"}}, required=["next"]
    )
    answer = choice_of(chat, response_format={"type": "json_object"})["message"]["content"]
    assert "Simulated" in json.loads(answer)["answer"]


def test_the_same_seed_gives_the_same_answers():
    answers = []
    for _ in range(2):
        with SimulatedUpstream("--seed", "42") as upstream, upstream.wire() as wire:
            upstream.control("PUT", "/_persona/moody", {"error_rate": 0.5})
            moody = Asked(upstream, wire, "chat/completions", "moody")
            answers.append([moody()[::2] for _ in range(30)])
    assert answers[0] == answers[1]
    assert {status for status, _ in answers[0]} == {200, 503}
