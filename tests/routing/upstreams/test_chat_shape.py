"""What providers leave out of chat answers, or spell in their own way, is made whole once."""

from typing import Any

import orjson
import pytest

from routing.upstreams.openai import Reader, read_answer


def message_of(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    body = {"choices": [{"index": 0, "message": message, **choice}]}
    return read_answer(orjson.dumps(body), "application/json").message


def deltas(*said: dict[str, Any], finish: str | None = "tool_calls") -> list[dict[str, Any]]:
    reader = Reader()
    choices = [{"index": 0, "delta": delta} for delta in said]
    if finish:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    payloads = [*(orjson.dumps({"choices": [choice]}) for choice in choices), b"[DONE]"]
    return [event.delta for payload in payloads for event in reader.events(payload)]


def calls_in(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> list[tuple[str, ...]]:
    return added_up(deltas(*({"tool_calls": [piece]} for piece in pieces), finish=finish))


def added_up(said: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Id, type, name and arguments of each call as clients add deltas up, by index."""
    calls: dict[int, list[str]] = {}
    for call in (call for delta in said for call in delta.get("tool_calls") or ()):
        known = calls.setdefault(call["index"], ["", "", "", ""])
        function = call["function"]
        words = (call.get("id"), call.get("type"), function.get("name"), function.get("arguments"))
        known[:] = [before + (word or "") for before, word in zip(known, words, strict=True)]
    return [(*calls[index],) for index in sorted(calls)]


def piece(arguments: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"arguments": arguments, **({"name": name} if name else {})}}


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": 1}, '{"a":1}'), ({}, "{}"), (None, "{}"), ("", "{}"), ('{"a": 2}', '{"a": 2}')],
)
def test_arguments_are_text(given: Any, text: str) -> None:
    function = {"name": "f"} if given is None else {"name": "f", "arguments": given}
    (call,) = message_of({"content": None, "tool_calls": [{"function": function}]})["tool_calls"]
    assert call == {"type": "function", "function": {"name": "f", "arguments": text}}
    for finish in ("tool_calls", None):
        assert calls_in({"index": 0, "function": function}, finish=finish) == [
            ("", "function", "f", text)
        ]


def test_the_call_of_a_function_is_one_of_a_tool() -> None:
    function = {"name": "f", "arguments": '{"a": 1}'}
    (call,) = message_of({"content": None, "function_call": function})["tool_calls"]
    assert call == {"type": "function", "function": function}

    fragments = ({"name": "f", "arguments": '{"a"'}, {"arguments": ": 1}"})
    said = deltas(*({"function_call": each} for each in fragments))
    assert added_up(said) == [("", "function", "f", '{"a": 1}')]

    nothing = {"content": "x", "function_call": {"name": "", "arguments": ""}}
    assert "tool_calls" not in message_of(nothing)
    assert added_up(deltas(nothing, finish="stop")) == []


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # Without an index, calls are told apart by their ids.
        (
            [
                piece('{"x"', "f", id="a"),
                piece(":1}"),
                piece("{}", "g", id="b"),
                piece(" ", "f", id="a"),
            ],
            [("a", "function", "f", '{"x":1} '), ("b", "function", "g", "{}")],
        ),
        # Calls that all have one index are several.
        (
            [
                piece("{}", "f", index=0, id="a"),
                piece("{", "f", index=0, id="b"),
                piece("}", index=0),
            ],
            [("a", "function", "f", "{}"), ("b", "function", "f", "{}")],
        ),
        # A name that is said again is said once.
        ([piece("1", "f", index=0, id="a", type="function")] * 3, [("a", "function", "f", "111")]),
        ([piece("", "f", index=0, id="a", type="function")] * 3, [("a", "function", "f", "{}")]),
    ],
)
def test_calls_are_told_apart_and_named_once(pieces: list[Any], calls: list[Any]) -> None:
    assert calls_in(*pieces) == calls


def test_an_id_comes_with_the_name() -> None:
    given = [piece("", index=0, id="a"), piece("{}", "f", index=0, id="a")]
    first, second, _ = deltas(*({"tool_calls": [call]} for call in given))
    assert "id" not in first["tool_calls"][0]
    assert second["tool_calls"] == [given[1]]


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}]},
    {"type": "thinking", "thinking": "see."},
    {"type": "text", "text": "Four."},
    {"type": "reference", "reference_ids": [1]},
]


def test_content_in_parts_is_text_and_reasoning() -> None:
    first, _ = deltas({"content": PARTS}, finish="stop")
    for said in (message_of({"role": "assistant", "content": PARTS}), first):
        assert (said["content"], said["reasoning"]) == ("Four.", "Let me see.")


def test_a_second_choice_is_nobodys() -> None:
    other = orjson.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    (event,) = Reader().events(other)
    assert (event.delta, event.has_choice) == ({}, False)
    both = {"choices": [{"index": 1, "message": {"content": "no"}}, {"message": {"content": "y"}}]}
    assert read_answer(orjson.dumps(both), "").message == {"content": "y"}


def test_a_plain_delta_is_left_as_it_is() -> None:
    (event,) = Reader().events(b'{"choices":[{"delta":{"content":"a"}}]}')
    assert event.delta == {"content": "a"}


def test_usage_is_found_where_groq_says_it() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    payload = orjson.dumps({"choices": [{"delta": {}}], "x_groq": {"usage": usage}})
    (event,) = Reader().events(payload)
    assert event.usage == usage


def test_reasoning_that_only_the_total_tells_is_billed() -> None:
    usage = {"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}
    body = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    found = read_answer(orjson.dumps(body), "").usage
    assert found["completion_tokens"] == 74
    assert found["completion_tokens_details"] == {"reasoning_tokens": 62}
