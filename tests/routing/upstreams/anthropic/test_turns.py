"""Chat messages become the turns that the messages API takes."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import (
    assistant,
    call,
    result,
    sent_for,
    turns_for,
    user,
)

SIGNED = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


MARKED = {"cache_control": {"type": "ephemeral"}}


def test_instructions_of_every_place_become_the_system_prompt() -> None:
    body = sent_for(
        [
            {"role": "system", "content": "one", "name": "boss"},
            user("hi"),
            {"role": "developer", "content": [{**text("two"), "cache_control": {"type": "x"}}]},
            user("there"),
        ]
    )
    assert body["system"] == [
        text("boss: one"),
        {**text("two"), "cache_control": {"type": "x"}},
    ]
    assert body["messages"] == [{"role": "user", "content": [text("hi"), text("there")]}]


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ([{"role": "system", "content": "s"}], [("user", [text(".")])]),
        ([assistant("a")], [("user", [text(".")]), ("assistant", [text("a")])]),
        ([user("")], [("user", [text(".")])]),
        ([user(" \n"), user("x")], [("user", [text("x")])]),
        ([user("x"), assistant(None), user("y")], [("user", [text("x"), text("y")])]),
        (
            [user("a"), assistant("b"), assistant("c"), user("d"), user("e")],
            [
                ("user", [text("a")]),
                ("assistant", [text("b"), text("c")]),
                ("user", [text("d"), text("e")]),
            ],
        ),
        (
            [user("x", name="bob"), assistant("y ", name="eve")],
            [("user", [text("bob: x")]), ("assistant", [text("eve: y")])],
        ),
    ],
)
def test_turns_alternate_and_begin_with_the_user(messages: Any, turns: Any) -> None:
    assert turns_for(messages) == turns


def test_only_the_end_of_an_answer_to_continue_is_trimmed() -> None:
    turns = turns_for([user("x "), assistant("kept "), user("y"), assistant("cut \n")])
    assert turns[1] == ("assistant", [text("kept ")])
    assert turns[3] == ("assistant", [text("cut")])


def test_a_name_stands_before_what_is_no_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    [(_, blocks)] = turns_for([user([image], name="bob")])
    assert blocks[0] == text("bob: ")


def test_calls_and_their_results() -> None:
    turns = turns_for(
        [
            user("x"),
            assistant("hm", tool_calls=[call("a", '{"n": 12345678901234567890}'), call("b", "{")]),
            user("and this"),
            result("a", "one"),
            result("b", [{**text("two"), "cache_control": {"type": "ephemeral"}}], is_error=True),
        ]
    )
    used = [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 12345678901234567890}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
    ]
    assert turns[1] == ("assistant", [text("hm"), *used])
    assert turns[2] == (
        "user",
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {
                "type": "tool_result",
                "tool_use_id": "b",
                "content": [text("two")],
                "is_error": True,
                "cache_control": {"type": "ephemeral"},
            },
            text("and this"),
        ],
    )


@pytest.mark.parametrize("arguments", ["", "[1]", '"x"', "null", "nope", "NaN"])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    turns = turns_for([user("x"), assistant(None, tool_calls=[call("a", arguments)]), result("a")])
    assert turns[1][1][0]["input"] == {}


def test_ids_of_other_providers_are_respelled_alike_in_call_and_result() -> None:
    ids = ["functions.f:0", "functions.f.0", "", "call_1"]
    calls = [call(given) for given in ids]
    turns = turns_for([user("x"), assistant(None, tool_calls=calls), *map(result, ids)])
    used = [block["id"] for block in turns[1][1]]
    assert used == [block["tool_use_id"] for block in turns[2][1]]
    assert len(set(used)) == 4
    assert used[3] == "call_1"
    assert all(given.replace("_", "a").isalnum() for given in used)


def test_an_id_used_twice_is_made_two() -> None:
    again = [assistant(None, tool_calls=[call("a")]), result("a")]
    turns = turns_for([user("x"), *again, *again, assistant(None, tool_calls=[call("a_2")])])
    used = [turn[1][0].get("id") or turn[1][0].get("tool_use_id") for turn in turns[1:]]
    assert used == ["a", "a", "a_2", "a_2", "a_2_2"]


def test_an_empty_result_has_no_content() -> None:
    turns = turns_for([user("x"), assistant(None, tool_calls=[call("a")]), result("a", "")])
    assert turns[2][1] == [{"type": "tool_result", "tool_use_id": "a"}]


@pytest.mark.parametrize("content", ["found", [text("found")], [{**text("a"), **MARKED}], ""])
def test_a_mark_on_a_tool_message_stands_on_the_result(content: Any) -> None:
    own = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    said = [user("hi"), assistant(tool_calls=[call("c")]), result("c", content, **own)]
    ((_, (block,)),) = turns_for(said)[-1:]
    assert block["cache_control"] == own["cache_control"]
    assert "cache_control" not in repr(block.get("content"))


def test_a_refusal_is_replayed_as_what_the_model_said() -> None:
    turns = turns_for([user("x"), assistant(None, refusal="no"), user("y")])
    assert turns[1] == ("assistant", [text("no")])


@pytest.mark.parametrize(
    ("details", "blocks"),
    [
        (
            [{**SIGNED, "text": "a"}, {**SIGNED, "text": "b"}, {**SIGNED, "signature": "s"}],
            [{"type": "thinking", "thinking": "ab", "signature": "s"}],
        ),
        (
            [{**SIGNED, "text": "a", "signature": "s"}, {**SIGNED, "text": "b", "signature": "t"}],
            [
                {"type": "thinking", "thinking": "a", "signature": "s"},
                {"type": "thinking", "thinking": "b", "signature": "t"},
            ],
        ),
        (
            [
                {"type": "reasoning.encrypted", "data": "d", "format": None},
                {"type": "reasoning.text", "text": None, "signature": "s"},
            ],
            [
                {"type": "redacted_thinking", "data": "d"},
                {"type": "thinking", "thinking": "", "signature": "s"},
            ],
        ),
        # Pieces of a block whose end is missing do not end up in the next one.
        (
            [
                {**SIGNED, "text": "lost"},
                {**SIGNED, "index": 1, "text": "kept", "signature": "s"},
            ],
            [{"type": "thinking", "thinking": "kept", "signature": "s"}],
        ),
        ([{**SIGNED, "text": "no signature"}], []),
        ([{"type": "reasoning.encrypted", "data": "d", "format": "openai-responses-v1"}], []),
        ([{"type": "reasoning.summary", "summary": "s", "format": "unknown"}, {"type": "new"}], []),
    ],
)
def test_reasoning_is_replayed_where_its_seal_is_there(details: Any, blocks: Any) -> None:
    message = assistant("said", reasoning="r", reasoning_details=details)
    turns = turns_for([user("x"), message, user("y")])
    assert turns[1] == ("assistant", [*blocks, text("said")])
