"""An answer goes out as blocks and comes back as the caller's next prompt: nothing is lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import parse_chat
from routing.formats.messages.answer import blocks_of_message
from routing.formats.messages.sealing import MARK, sealed, unsealed
from tests.routing.formats.messages.bodies import TEXT, USER, accepted, chat_of, said
from tests.routing.formats.messages.test_stream_properties import CLAUDE, items, objects


def plain(detail: dict[str, Any]) -> dict[str, Any]:
    """Without the number, which is its place in the list."""
    return {name: item for name, item in detail.items() if name != "index"}


@given(items(), st.booleans())
def test_reasoning_comes_back_as_it_was(details: list[dict[str, Any]], silent: bool) -> None:
    blocks = blocks_of_message({"reasoning_details": details}, silent=silent)
    [_, *replayed] = chat_of(USER, said("assistant", *blocks))
    back = replayed[0].get("reasoning_details", []) if replayed else []
    claudes = [detail.get("format") == CLAUDE for detail in details]
    for own, before, after in zip(claudes, details, back, strict=True):
        if own and silent and "text" in before:
            # Claude's own signature holds the words.
            before = {**before, "text": ""}
        assert plain(after) == plain(before)
    parse_chat({"messages": [USER, *replayed]}, session_header=None)


@given(st.text(min_size=1, max_size=9), objects)
def test_text_and_calls_come_back_as_they_were(text: str, given_input: dict[str, Any]) -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}
    blocks = blocks_of_message({"content": text, "tool_calls": [call]}, silent=False)
    blocks[1]["input"] = given_input
    [_, turn] = chat_of(USER, said("assistant", *blocks))
    assert turn["content"] == text
    again = blocks_of_message(turn, silent=False)
    assert again == blocks


def test_plain_reasoning_stays_plain() -> None:
    [block] = blocks_of_message({"reasoning": "hm"}, silent=False)
    assert block == {"type": "thinking", "thinking": "hm", "signature": ""}
    [_, turn] = chat_of(USER, said("assistant", block))
    assert turn["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm", "index": 0, "id": None, "format": None}
    ]


def test_message_upstreams_never_see_what_they_did_not_sign() -> None:
    foreign = {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"}
    blocks = blocks_of_message({"reasoning": "hm", "reasoning_details": [foreign]}, silent=False)
    claudes = {"type": "thinking", "thinking": "t", "signature": "c2ln"}
    request = accepted(messages=[USER, said("assistant", *blocks, claudes, TEXT)])
    assert request.original is not None
    assert request.original["messages"][1]["content"] == [claudes, TEXT]
    assert len(request.body["messages"][1]["reasoning_details"]) == 3


@pytest.mark.parametrize(
    "text",
    [
        MARK,
        MARK + "!",
        MARK + "eA==",
        sealed({"type": "reasoning.text", "text": 5}),
        sealed({"type": "reasoning.summary"}),
        sealed([1]),  # type: ignore[arg-type] # What a client may make of it.
        MARK + "é",
    ],
)
def test_a_seal_that_a_client_broke_is_no_item(text: str) -> None:
    assert unsealed(text) is None
    broken = [
        {"type": "thinking", "thinking": "hm", "signature": text},
        {"type": "redacted_thinking", "data": text},
    ]
    details = chat_of(USER, said("assistant", *broken))[1]["reasoning_details"]
    assert [detail.get("text") for detail in details] == ["hm", None]
    assert "signature" not in details[0]
