"""Reasoning replayed: items as details and back again (inference 1.5, 5.2 and 11)."""

from typing import Any

from routing.formats.responses.ids import item_id, stem_of
from routing.ids import is_own_reasoning
from tests.routing.formats.responses.answers import output_of
from tests.routing.formats.responses.bodies import CALL, CALL_OUTPUT, messages

OWN_ID = item_id("rs", stem_of("gen-1"), 0)
SUMMARY = {"type": "summary_text", "text": "s"}
THOUGHT = {"type": "reasoning_text", "text": "t"}


def details(*items: dict[str, Any]) -> Any:
    [turn] = messages(*items)
    return turn["reasoning_details"]


def test_ids_made_here_are_known_again() -> None:
    assert is_own_reasoning(OWN_ID)
    assert not is_own_reasoning(None)
    assert not is_own_reasoning("rs_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78")


def test_pieces_of_one_item_share_id_and_index() -> None:
    common = {"id": "rs_1", "format": "openai-responses-v1", "index": 0}
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [SUMMARY, {**SUMMARY, "text": "s2"}],
        "content": [THOUGHT],
        "encrypted_content": "gAAA",
    }
    assert details(item, {**item, "id": "rs_2", "summary": [], "content": None})[:4] == [
        {"type": "reasoning.summary", "summary": "s", **common},
        {"type": "reasoning.summary", "summary": "s2", **common},
        {"type": "reasoning.text", "text": "t", **common},
        {"type": "reasoning.encrypted", "data": "gAAA", **common},
    ]
    indexes = [one["index"] for one in details(item, {**item, "id": "rs_2"}, item)]
    assert indexes == [0] * 4 + [1] * 4 + [0] * 4


def test_signed_thinking_keeps_its_signature_and_format() -> None:
    signed = {
        "type": "reasoning",
        "id": OWN_ID,
        "summary": [],
        "content": [THOUGHT],
        "signature": "sig",
        "format": "anthropic-claude-v1",
    }
    common = {"id": None, "format": "anthropic-claude-v1", "index": 0}
    assert details(signed) == [
        {"type": "reasoning.text", "text": "t", "signature": "sig", **common}
    ]
    assert details({**signed, "content": None}) == [
        {"type": "reasoning.text", "signature": "sig", **common}
    ]


def test_plain_reasoning_is_plain_again() -> None:
    plain = {"type": "reasoning", "id": OWN_ID, "summary": [], "content": [THOUGHT, THOUGHT]}
    [turn] = messages(plain, CALL)
    assert turn["reasoning"] == "tt"
    assert "reasoning_details" not in turn


def test_reasoning_joins_the_turn_it_belongs_to() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY]}
    spoken = {"role": "assistant", "content": "a"}
    first, second, output = messages(item, spoken, {**item, "id": "rs_2"}, CALL, CALL_OUTPUT)
    assert (first["content"], len(first["reasoning_details"])) == ("a", 1)
    assert second["content"] is None
    assert second["reasoning_details"][0]["id"] == "rs_2"
    assert output["role"] == "tool"


def test_reasoning_between_calls_stays_with_them() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY]}
    turn, _ = messages(item, CALL, {**item, "id": "rs_2"}, {**CALL, "call_id": "c2"}, CALL_OUTPUT)
    assert len(turn["tool_calls"]) == 2
    assert [one["index"] for one in turn["reasoning_details"]] == [0, 1]


def test_details_survive_the_way_out_and_back() -> None:
    for said in (
        [
            {"type": "reasoning.text", "text": "t", "signature": "s", "index": 0},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
        ],
        [
            {"type": "reasoning.summary", "summary": "a", "id": "rs_1", "index": 0},
            {"type": "reasoning.summary", "summary": "b", "id": "rs_1", "index": 0},
            {"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "index": 0},
            {"type": "reasoning.summary", "summary": "c", "id": "rs_2", "index": 1},
        ],
        [
            {"type": "reasoning.text", "text": "t", "index": 0},
            {"type": "reasoning.text", "signature": "s", "index": 0},
        ],
        [
            {"type": "reasoning.text", "text": "t", "index": 0},
            {"type": "reasoning.encrypted", "data": "x", "id": "tool_1", "index": 1},
        ],
    ):
        full = [{"id": None, "format": "anthropic-claude-v1", **one} for one in said]
        again = details(*output_of({"reasoning_details": full, "content": None}))
        assert _merged(again) == _merged(full)


def test_details_of_no_format_come_back_as_unknown() -> None:
    [item] = output_of({"reasoning_details": [{"type": "reasoning.text", "text": "t", "index": 0}]})
    assert details(item)[0]["format"] == "unknown"


def _merged(full: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A signature may stand beside its text or after it."""
    merged: list[dict[str, Any]] = []
    for one in full:
        seals = one["type"] == "reasoning.text" and "text" not in one and merged
        if seals and merged[-1]["index"] == one["index"]:
            merged[-1] = {**merged[-1], **one}
        else:
            merged.append(one)
    return merged
