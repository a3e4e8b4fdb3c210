"""Chat messages as a system prompt and turns of the messages API: user and assistant in
alternation, beginning with the user. Cache breakpoints are counted here."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.upstreams.anthropic.blocks import (
    Block,
    CallIds,
    build_assistant_blocks,
    build_content_blocks,
    build_text_blocks,
    build_tool_result_block,
)

# What a turn says that has to be there and says nothing.
_PLACEHOLDER: Final = "."


def build_messages(messages: list[JsonObject]) -> tuple[list[Block], list[JsonObject]]:
    """System blocks and messages. Instructions from the middle of a conversation go to the top,
    and neighbours of one role become one turn."""
    system: list[Block] = []
    turns: list[JsonObject] = []
    ids = CallIds()
    for message in messages:
        role = message["role"]
        if role in ("system", "developer"):
            system += build_text_blocks(message["content"], message.get("name"))
        elif role == "assistant":
            _append_blocks(turns, "assistant", build_assistant_blocks(message, ids))
        elif role == "tool":
            _append_blocks(turns, "user", [build_tool_result_block(message, ids)])
        else:
            _append_blocks(
                turns, "user", build_content_blocks(message["content"], message.get("name"))
            )
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": []})
    for turn in turns:
        if turn["role"] == "user":
            # Results come before anything else that a user says to the calls.
            blocks = turn["content"]
            results = [block for block in blocks if block["type"] == "tool_result"]
            others = [block for block in blocks if block["type"] != "tool_result"]
            turn["content"] = results + others or [_build_placeholder()]
    # The API refuses an answer to continue that ends in white space.
    last = turns[-1]
    if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
        block = last["content"][-1]
        block["text"] = block["text"].rstrip()
    return system, turns


def _append_blocks(turns: list[JsonObject], role: str, blocks: list[Block]) -> None:
    if role == "assistant" and not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def build_empty_turn() -> JsonObject:
    """What stands for a conversation without a turn, which the API refuses."""
    return {"role": "user", "content": [_build_placeholder()]}


def _build_placeholder() -> Block:
    return {"type": "text", "text": _PLACEHOLDER}


def lacks_thinking(turns: list[JsonObject]) -> bool:
    """Whether the model is in the middle of calling tools and the reasoning that led there is
    gone; it cannot think on from there."""
    if len(turns) < 2 or "tool_result" not in _block_types(turns[-1]):
        return False
    return _block_types(turns[-2])[:1] not in (["thinking"], ["redacted_thinking"])


def _block_types(turn: JsonObject) -> list[Any]:
    content = turn["content"]
    return [block.get("type") for block in content] if isinstance(content, list) else []


# --- Cache breakpoints ----------------------------------------------------------------------------

MARKS_MAX: Final = 4
# Where marks stand in a body, in the order in which the model reads it.
_MARKED: Final = ("tools", "system", "messages")
# Blocks that cannot carry one.
_UNMARKABLE: Final = ("thinking", "redacted_thinking")


def limit_marks(body: JsonObject) -> JsonObject:
    """The body with no more breakpoints than the API takes: the last ones stay. An automatic one
    (`cache_control` on top) takes a place. The same body where there are few enough."""
    most = MARKS_MAX - (body.get("cache_control") is not None)
    surplus = _count_marks([body.get(name) for name in _MARKED]) - most
    if surplus <= 0:
        return body
    eraser = _MarkEraser(surplus)
    return body | {name: eraser.erase(body[name]) for name in _MARKED if name in body}


def mark_last_block(turns: list[JsonObject], mark: JsonObject) -> None:
    """Put an automatic breakpoint on the last block that can carry one."""
    for turn in reversed(turns):
        for block in reversed(turn["content"]):
            if block["type"] not in _UNMARKABLE:
                block.setdefault("cache_control", dict(mark))
                return


def _count_marks(waiting: list[Any]) -> int:
    """Breakpoints in these and in all that is inside them, which is put behind them. A call for
    each block of a long conversation would cost more than the look at it."""
    marks = 0
    for value in waiting:
        if isinstance(value, dict):
            if value.get("cache_control") is not None:
                marks += 1
            inner = value.get("content")
            if isinstance(inner, list):
                waiting += inner
            elif isinstance(inner, dict):
                waiting.append(inner)
        elif isinstance(value, list):
            waiting += value
    return marks


class _MarkEraser:
    """Copies blocks without the first marks."""

    def __init__(self, surplus: int) -> None:
        self._surplus = surplus

    def erase(self, value: object) -> Any:
        if not self._surplus:
            return value
        if isinstance(value, list):
            return [self.erase(item) for item in value]
        if not isinstance(value, dict):
            return value
        copy = dict(value)
        if "content" in copy:
            copy["content"] = self.erase(copy["content"])
        if self._surplus and copy.get("cache_control") is not None:
            del copy["cache_control"]
            self._surplus -= 1
        return copy
