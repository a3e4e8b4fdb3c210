"""Reasoning that a caller replays in fragments, and what is no reasoning at all."""

from typing import Any

import pytest

from routing.upstreams.responses.reasoning_items import FORMAT, reasoning_items

SEAL = {"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "format": FORMAT}


def test_many_fragments_are_one_text() -> None:
    summary = {"type": "reasoning.summary", "summary": "a", "id": "rs_1", "format": FORMAT}
    rest = [{**summary, "summary": "b", "continues": True}] * 20_000
    [item] = reasoning_items([summary, *rest, {**summary, "summary": "c"}, SEAL])
    assert [part["text"] for part in item["summary"]] == ["a" + "b" * 20_000, "c"]


@pytest.mark.parametrize("detail", [{}, {"type": None}, {"type": []}, {"type": "reasoning.new"}])
@pytest.mark.parametrize("beside", [{}, {"format": FORMAT}, {"id": ["x"]}])
def test_details_of_no_known_type_are_left_out(
    detail: dict[str, Any], beside: dict[str, Any]
) -> None:
    [item] = reasoning_items([{**detail, **beside}, SEAL])
    assert item["encrypted_content"] == "x"
