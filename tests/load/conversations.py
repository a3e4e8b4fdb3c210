"""The same long conversation, with tools called in every turn, in the three caller formats."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.support.speakers import SPEAKERS

BYTES_MIN: Final = 100_000
_WORDS: Final = ("weather", "of", "a", "city", "north", "river", "is", "told", "by", "tools")
_TOOLS: Final = [
    {
        "name": name,
        "description": f"Looks for {name} by place and day.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["place"],
        },
    }
    for name in ("weather", "trains", "hotels")
]
# Characters of what a user, a model and a tool say in one turn, about as agents and tools do.
_ASKED, _THOUGHT, _FOUND, _ANSWERED = 300, 150, 1200, 600

Messages = list[dict[str, Any]]


def conversation(format: str) -> bytes:
    """A body of a little more than `BYTES_MIN` bytes."""
    speaker, turn = SPEAKERS[format], _TURNS[format]
    random, history, number = Random(7), list[dict[str, Any]](), 0
    while len(json.dumps(history)) < BYTES_MIN:
        number += 1
        history += speaker.user(_text(random, _ASKED)) + turn(random, f"call_{number}")
    history += speaker.user("And now?")
    body = speaker.body("bench/any", history, tools=_TOOLS, system=_text(random, 600), cap=400)
    return json.dumps(body).encode()


def _text(random: Random, chars: int) -> str:
    said = ""
    while len(said) < chars:
        said += f" {random.choice(_WORDS)}"
    return said.strip()


def _arguments(random: Random) -> dict[str, Any]:
    return {"place": _text(random, 40), "days": random.randint(1, 9)}


def _chat_turn(random: Random, call_id: str) -> Messages:
    said, arguments = _text(random, _THOUGHT), json.dumps(_arguments(random))
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": "weather", "arguments": arguments},
    }
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        *SPEAKERS["chat"].results({call_id: _text(random, _FOUND)}),
        {"role": "assistant", "content": _text(random, _ANSWERED)},
    ]


def _messages_turn(random: Random, call_id: str) -> Messages:
    said = {"type": "text", "text": _text(random, _THOUGHT)}
    call = {"type": "tool_use", "id": call_id, "name": "weather", "input": _arguments(random)}
    found = SPEAKERS["messages"].results({call_id: _text(random, _FOUND)})
    answer = [{"type": "text", "text": _text(random, _ANSWERED)}]
    return [
        {"role": "assistant", "content": [said, call]},
        *found,
        {"role": "assistant", "content": answer},
    ]


def _responses_turn(random: Random, call_id: str) -> Messages:
    said, arguments = _text(random, _THOUGHT), json.dumps(_arguments(random))
    call = {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "weather",
        "arguments": arguments,
        "status": "completed",
    }
    found = SPEAKERS["responses"].results({call_id: _text(random, _FOUND)})
    return [
        _output_message(f"msg_a_{call_id}", said),
        call,
        *found,
        _output_message(f"msg_b_{call_id}", _text(random, _ANSWERED)),
    ]


def _output_message(message_id: str, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": message_id,
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


_TURNS: Final[dict[str, Callable[[Random, str], Messages]]] = {
    "chat": _chat_turn,
    "messages": _messages_turn,
    "responses": _responses_turn,
}
