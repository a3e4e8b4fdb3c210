"""Reasoning replayed: items as details and back again (inference 1.5, 5.2 and 11)."""

from typing import Any

import pytest

from routing.entities.ids import is_own_reasoning
from routing.formats.responses.write import derive_stem, item_id
from tests.routing.formats.responses.answers import output_of
from tests.routing.formats.responses.bodies import CALL, CALL_OUTPUT, messages

OWN_ID = item_id("rs", derive_stem("gen-1"), 0)
SUMMARY = {"type": "summary_text", "text": "s"}
THOUGHT = {"type": "reasoning_text", "text": "t"}
ITEM: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY]}
OTHER = {**ITEM, "id": "rs_2"}


def details(*items: dict[str, Any]) -> Any:
    [turn] = messages(*items)
    return turn["reasoning_details"]


def test_ids_made_here_are_known_again() -> None:
    assert is_own_reasoning(OWN_ID)
    assert not is_own_reasoning(None)
    assert not is_own_reasoning("rs_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78")


def test_signed_thinking_keeps_its_signature_and_format() -> None:
    form = {"format": "anthropic-claude-v1"}
    signed = {**ITEM, "id": OWN_ID, "summary": [], "signature": "sig", **form}
    detail = {"type": "reasoning.text", "signature": "sig", "id": None, "index": 0, **form}
    assert details({**signed, "content": [THOUGHT]}) == [{**detail, "text": "t"}]
    assert details({**signed, "content": None}) == [detail]


def test_plain_reasoning_is_plain_again() -> None:
    [turn] = messages({**ITEM, "id": OWN_ID, "summary": [], "content": [THOUGHT, THOUGHT]}, CALL)
    assert turn["reasoning"] == "tt"
    assert "reasoning_details" not in turn


def test_reasoning_joins_the_turn_it_belongs_to() -> None:
    spoken = {"role": "assistant", "content": "a"}
    first, second, output = messages(ITEM, spoken, OTHER, CALL, CALL_OUTPUT)
    assert (first["content"], len(first["reasoning_details"])) == ("a", 1)
    assert (second["content"], second["reasoning_details"][0]["id"]) == (None, "rs_2")
    assert output["role"] == "tool"
    # Between calls it stays with them.
    turn, _ = messages(ITEM, CALL, OTHER, {**CALL, "call_id": "c2"}, CALL_OUTPUT)
    assert len(turn["tool_calls"]) == 2
    assert [one["index"] for one in turn["reasoning_details"]] == [0, 1]


def detail(kind: str, index: int = 0, **said: Any) -> dict[str, Any]:
    return {"id": None, "type": f"reasoning.{kind}", "index": index, **said}


@pytest.mark.parametrize(
    "said",
    [
        [detail("text", text="t", signature="s"), detail("encrypted", 1, data="x")],
        [
            detail("summary", summary="a", id="rs_1"),
            detail("summary", summary="b", id="rs_1"),
            detail("encrypted", data="x", id="rs_1"),
            detail("summary", 1, summary="c", id="rs_2"),
        ],
        [detail("text", text="t"), detail("text", signature="s")],
        [detail("text", text="t"), detail("encrypted", 1, data="x", id="tool_1")],
    ],
)
def test_details_survive_the_way_out_and_back(said: list[dict[str, Any]]) -> None:
    full = [{**one, "format": "anthropic-claude-v1"} for one in said]
    again = details(*output_of({"reasoning_details": full, "content": None}))
    assert merged(again) == merged(full)


def test_details_of_no_format_come_back_as_unknown() -> None:
    [item] = output_of({"reasoning_details": [{"type": "reasoning.text", "text": "t", "index": 0}]})
    assert details(item)[0]["format"] == "unknown"


def merged(full: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A signature may stand beside its text or after it."""
    found: list[dict[str, Any]] = []
    for one in full:
        seals = one["type"] == "reasoning.text" and "text" not in one and found
        if seals and found[-1]["index"] == one["index"]:
            found[-1] = {**found[-1], **one}
        else:
            found.append(one)
    return found
