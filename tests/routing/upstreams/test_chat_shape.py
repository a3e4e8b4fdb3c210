"""What providers leave out of chat answers, or spell in their own way, is made whole once."""

from typing import Any

import orjson
import pytest

from routing.upstreams.openai import Reader, answer


def message_of(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    body = {"choices": [{"index": 0, "message": message, **choice}]}
    return answer(orjson.dumps(body), "application/json").message


def deltas(*said: dict[str, Any], finish: str | None = "tool_calls") -> list[dict[str, Any]]:
    reader = Reader()
    choices = [{"index": 0, "delta": delta} for delta in said]
    if finish:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    payloads = [*(orjson.dumps({"choices": [choice]}) for choice in choices), b"[DONE]"]
    return [event.delta for payload in payloads for event in reader.events(payload)]


def added_up(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As clients add deltas up: by index, texts at the end of texts."""
    calls: dict[int, dict[str, Any]] = {}
    for call in (call for delta in found for call in delta.get("tool_calls") or ()):
        known = calls.setdefault(call["index"], {"id": "", "type": "", "name": "", "arguments": ""})
        for name in ("id", "type"):
            known[name] += call.get(name) or ""
        for name in ("name", "arguments"):
            known[name] += call["function"].get(name) or ""
    return [calls[index] for index in sorted(calls)]


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": 1}, '{"a":1}'), ({}, "{}"), (None, "{}"), ("", "{}"), ('{"a": 2}', '{"a": 2}')],
)
def test_arguments_are_text(given: Any, text: str) -> None:
    function = {"name": "f"} if given is None else {"name": "f", "arguments": given}
    (call,) = message_of({"content": None, "tool_calls": [{"function": function}]})["tool_calls"]
    assert call["function"]["arguments"] == text
    assert call["type"] == "function"
    assert "id" not in call

    for finish in ("tool_calls", None):
        said = deltas({"tool_calls": [{"index": 0, "function": function}]}, finish=finish)
        (streamed,) = added_up(said)
        assert streamed == {"id": "", "type": "function", "name": "f", "arguments": text}


def test_the_call_of_a_function_is_one_of_a_tool() -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    (call,) = message_of({"content": None, "function_call": function})["tool_calls"]
    assert call == {"type": "function", "function": function}

    fragments = ({"name": "f", "arguments": '{"a"'}, {"arguments": ": 1}"})
    (streamed,) = added_up(deltas(*({"function_call": each} for each in fragments)))
    assert streamed == {"id": "", "type": "function", **function}

    nothing = {"content": "x", "function_call": {"name": "", "arguments": ""}}
    assert "tool_calls" not in message_of(nothing)
    assert added_up(deltas(nothing, finish="stop")) == []


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    found = deltas(
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x"'}}]},
        {"tool_calls": [{"function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": " "}}]},
    )
    assert added_up(found) == [
        {"id": "a", "type": "function", "name": "f", "arguments": '{"x":1} '},
        {"id": "b", "type": "function", "name": "g", "arguments": "{}"},
    ]


def test_calls_that_all_have_one_index_are_several() -> None:
    found = deltas(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
    )
    assert [(call["id"], call["arguments"]) for call in added_up(found)] == [
        ("a", "{}"),
        ("b", "{}"),
    ]


@pytest.mark.parametrize(("said", "text"), [("1", "111"), ("", "{}")])
def test_a_name_that_is_said_again_is_said_once(said: str, text: str) -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": said}}
    assert added_up(deltas(*[{"tool_calls": [call]}] * 3)) == [
        {"id": "a", "type": "function", "name": "f", "arguments": text}
    ]


def test_an_id_comes_with_the_name() -> None:
    first, second, _ = deltas(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": ""}}]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]},
    )
    (unnamed,), (named,) = first["tool_calls"], second["tool_calls"]
    assert "id" not in unnamed
    assert named == {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}]},
    {"type": "thinking", "thinking": "see."},
    {"type": "text", "text": "Four."},
    {"type": "reference", "reference_ids": [1]},
]


def test_content_in_parts_is_text_and_reasoning() -> None:
    whole = message_of({"role": "assistant", "content": PARTS})
    assert (whole["content"], whole["reasoning"]) == ("Four.", "Let me see.")
    first, _ = deltas({"content": PARTS}, finish="stop")
    assert (first["content"], first["reasoning"]) == ("Four.", "Let me see.")


def test_a_second_choice_is_nobodys() -> None:
    reader = Reader()
    other = orjson.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    (event,) = reader.events(other)
    assert (event.delta, event.has_choice) == ({}, False)
    both = {"choices": [{"index": 1, "message": {"content": "no"}}, {"message": {"content": "y"}}]}
    assert answer(orjson.dumps(both), "").message == {"content": "y"}


def test_a_plain_delta_is_left_as_it_is() -> None:
    (event,) = Reader().events(b'{"choices":[{"delta":{"content":"a"}}]}')
    assert event.delta == {"content": "a"}


def test_groqs_usage_is_found() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    (event,) = Reader().events(
        orjson.dumps({"choices": [{"delta": {}}], "x_groq": {"usage": usage}})
    )
    assert event.usage == usage


def test_reasoning_that_only_the_total_tells_is_billed() -> None:
    usage = {"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}
    body = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    found = answer(orjson.dumps(body), "").usage
    assert found["completion_tokens"] == 74
    assert found["completion_tokens_details"] == {"reasoning_tokens": 62}
