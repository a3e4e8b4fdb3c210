"""Small responses bodies."""

from typing import Any

from routing.formats.responses.format import RESPONSES
from tests.routing.formats.chat_bodies import DATA_URL, Bodies

__all__ = ["DATA_URL"]

CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": "{not json",
}
CALL_OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "22"}
FUNCTION: dict[str, Any] = {"type": "function", "name": "f", "parameters": None}

BODIES = Bodies(RESPONSES, input="hi")
body, parse_fields, expect_refusal = BODIES.body, BODIES.parse_fields, BODIES.expect_refusal
paths, text_of = BODIES.paths, BODIES.text_of


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    """What the items are in chat."""
    translated: list[dict[str, Any]] = parse_fields(input=list(items), **fields).body["messages"]
    return translated


def message(item: dict[str, Any]) -> dict[str, Any]:
    """The one chat message of an item."""
    [only] = messages(item)
    return only


def item_paths(*items: Any) -> list[str]:
    """Where the items are refused, below `input`."""
    return [path.removeprefix("input.") for path in paths(input=list(items))]
