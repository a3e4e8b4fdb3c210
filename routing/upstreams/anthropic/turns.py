"""Chat messages as the turns of the messages API: a system prompt, then user and assistant in
alternation, beginning with the user."""

from typing import Any, Final

from routing.upstreams.anthropic.blocks import (
    assistant_blocks,
    content_blocks,
    text_blocks,
    tool_result,
)
from routing.upstreams.anthropic.call_ids import CallIds
from routing.upstreams.anthropic.media import Block

# What a turn says that has to be there and says nothing.
_NOTHING: Final = "."


def turns_of(messages: list[dict[str, Any]]) -> tuple[list[Block], list[dict[str, Any]]]:
    """System blocks and messages. Instructions from the middle of a conversation go to the top,
    and neighbours of one role become one turn."""
    system: list[Block] = []
    turns: list[dict[str, Any]] = []
    ids = CallIds()
    for message in messages:
        role = message["role"]
        if role in ("system", "developer"):
            system += text_blocks(message["content"], message.get("name"))
        elif role == "assistant":
            _say(turns, "assistant", assistant_blocks(message, ids))
        elif role == "tool":
            _say(turns, "user", [tool_result(message, ids)])
        else:
            _say(turns, "user", content_blocks(message["content"], message.get("name")))
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": []})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"] = _settled(turn["content"])
    _trim_prefill(turns[-1])
    return system, turns


def _say(turns: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if role == "assistant" and not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _settled(blocks: list[Block]) -> list[Block]:
    """Results come before anything else that a user says to the calls."""
    if len(blocks) == 1:
        return blocks
    if not blocks:
        return [_nothing()]
    results = [block for block in blocks if block["type"] == "tool_result"]
    if not results:
        return blocks
    return results + [block for block in blocks if block["type"] != "tool_result"]


def empty_turn() -> dict[str, Any]:
    """What stands for a conversation without a turn, which the API refuses."""
    return {"role": "user", "content": [_nothing()]}


def _nothing() -> Block:
    return {"type": "text", "text": _NOTHING}


def _trim_prefill(last: dict[str, Any]) -> None:
    """The API refuses an answer to continue that ends in white space."""
    if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
        block = last["content"][-1]
        block["text"] = block["text"].rstrip()


def is_prefill(turns: list[dict[str, Any]]) -> bool:
    """Whether the model is to continue an answer."""
    return bool(turns[-1]["role"] == "assistant")


def lacks_thinking(turns: list[dict[str, Any]]) -> bool:
    """Whether the model is in the middle of calling tools and the reasoning that led there is
    gone; it cannot think on from there."""
    if len(turns) < 2 or "tool_result" not in _kinds(turns[-1]):
        return False
    return _kinds(turns[-2])[:1] not in (["thinking"], ["redacted_thinking"])


def _kinds(turn: dict[str, Any]) -> list[Any]:
    content = turn["content"]
    return [block.get("type") for block in content] if isinstance(content, list) else []
