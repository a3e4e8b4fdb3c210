"""`instructions` and `input` as chat messages (inference reference 5.2 and 11)."""

from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from routing.formats.responses.parts import chat_part, content
from routing.formats.responses.turn import Turn

_ASSISTANT: Final = "assistant"
_REFERENCE: Final = "item_reference"


def chat_messages(
    instructions: str | None, given: str | list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages, and the items that have no equivalent in chat."""
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    if type(given) is str:
        messages.append({"role": "user", "content": given})
        return messages, []
    return messages, _read(given, messages)


def without_references(body: dict[str, Any]) -> dict[str, Any]:
    """A checked body without what refers to its other items; the same where nothing does."""
    items = body["input"]
    if type(items) is str or not any(item.get("type") == _REFERENCE for item in items):
        return body
    return {**body, "input": [item for item in items if item.get("type") != _REFERENCE]}


def with_added_tools(body: dict[str, Any]) -> dict[str, Any]:
    """A checked body with the tools that stand among its items beside the others; the same where
    there are none."""
    items = body["input"] if type(body["input"]) is list else ()
    added = [item["tools"] for item in items if item.get("type") == "additional_tools"]
    return {**body, "tools": [*body.get("tools", ()), *chain(*added)]} if added else body


def _read(items: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left_out: list[dict[str, Any]] = []
    turn = Turn()
    for item in items:
        kind = item.get("type", "message")
        is_models = kind != "message" or item["role"] == _ASSISTANT
        add = _ADDED_TO_A_TURN.get(kind) if is_models else None
        if add is not None:
            if turn.is_closed_to(kind):
                turn = _ended(turn, messages)
            add(turn, item)
        elif (message := _apart(kind, item)) is not None:
            turn = _ended(turn, messages)
            messages.append(message)
        else:
            left_out.append(item)
    _ended(turn, messages)
    return left_out


def _ended(turn: Turn, messages: list[dict[str, Any]]) -> Turn:
    message = turn.message()
    if message is not None:
        messages.append(message)
    return Turn()


def _apart(kind: str, item: dict[str, Any]) -> dict[str, Any] | None:
    """A message that is no part of the model's turn."""
    if kind == "message":
        return {"role": item["role"], "content": _said(item.get("content"))}
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = content(item["output"])
        return {"role": "tool", "tool_call_id": item["call_id"], "content": output}
    return None


def _said(given: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]]:
    """What others than the model said; a refusal among it is text like any other."""
    if type(given) is list and any(part["type"] == "refusal" for part in given):
        return [chat_part(part) for part in given]
    return content(given)


_ADDED_TO_A_TURN: Final[dict[str, Callable[[Turn, dict[str, Any]], None]]] = {
    "message": Turn.add_message,
    "function_call": Turn.add_call,
    "custom_tool_call": Turn.add_call,
    "reasoning": Turn.add_reasoning,
    "image_generation_call": Turn.add_image,
}
