"""`system` and `messages` as chat messages (inference reference 11)."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.jsonio import dumps
from gateway.http.validation import Issue
from routing.formats.messages.parts import PART_BLOCKS, content_of, marked, parts_of
from routing.formats.messages.sealing import (
    is_gateways_own,
    redacted_detail,
    thinking_detail,
)
from routing.formats.messages.server_use import is_own_use

_REASONING: Final = {"thinking": thinking_detail, "redacted_thinking": redacted_detail}
_ROUTER_RESULTS: Final = frozenset({"router_shell_tool_result", "router_bash_tool_result"})


def chat_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The chat messages of a checked body. Blocks that only a message-style upstream understands
    (what server tools said, compactions) are left out."""
    messages: list[dict[str, Any]] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": _content(system)})
    for message in body["messages"]:
        messages += _translated(message)
    return messages or [{"role": "user", "content": ""}]


def orphan_issues(messages: list[dict[str, Any]]) -> Iterator[Issue]:
    """The tool results that answer no tool use before them, by the caller's own paths."""
    called: set[str] = set()
    for index, message in enumerate(messages):
        blocks = list(enumerate(_blocks(message)))
        called.update(block["id"] for _, block in blocks if block["type"] == "tool_use")
        for place, block in blocks:
            if block["type"] == "tool_result" and block["tool_use_id"] not in called:
                path = f"messages.{index}.content.{place}.tool_use_id"
                yield Issue(path, "Invalid input: matches no tool_use of an earlier message")


def for_message_upstreams(body: dict[str, Any]) -> dict[str, Any]:
    """The body without blocks that the gateway wrote and no provider would take: the very same
    object when there are none."""
    messages = [_without_own(message) for message in body["messages"]]
    if all(new is old for new, old in zip(messages, body["messages"], strict=True)):
        return body
    # A message that held nothing else says nothing.
    return {**body, "messages": [message for message in messages if message["content"]]}


def _without_own(message: dict[str, Any]) -> dict[str, Any]:
    blocks = _blocks(message)
    ran = {block["tool_use_id"] for block in blocks if block["type"] in _ROUTER_RESULTS}
    kept = [block for block in blocks if not _is_own(block, ran)]
    return message if len(kept) == len(blocks) else {**message, "content": kept}


def _is_own(block: dict[str, Any], ran: set[str]) -> bool:
    kind = block["type"]
    if is_own_use(block):
        return True
    if kind == "server_tool_use":
        return block["id"] in ran
    return kind in _ROUTER_RESULTS or is_gateways_own(block)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if type(content) is list else []


def _content(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    return content if type(content) is str else content_of(parts_of(_of_parts(content)))


def _of_parts(blocks: Any) -> list[dict[str, Any]]:
    return [block for block in blocks if block["type"] in PART_BLOCKS]


def _translated(message: dict[str, Any]) -> list[dict[str, Any]]:
    role, content = message["role"], message["content"]
    if type(content) is str:
        return [{"role": role, "content": content}]
    said = _assistant(content)
    results = [_tool_message(block) for block in content if block["type"] == "tool_result"]
    parts = parts_of(_of_parts(content))
    own = [{"role": role, "content": content_of(parts)}] if parts else []
    if role != "assistant":
        return ([{"role": "assistant", "content": None, **said}] if said else []) + results + own
    if said or not content:
        own = [{"role": role, "content": content_of(parts) if parts else None, **said}]
    return own + results


def _assistant(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """What only an assistant says: its reasoning and its tool calls."""
    said: dict[str, Any] = {}
    details = [block for block in blocks if block["type"] in _REASONING]
    if details:
        said["reasoning_details"] = [
            _REASONING[block["type"]](block, index) for index, block in enumerate(details)
        ]
    if calls := [_tool_call(block) for block in blocks if block["type"] == "tool_use"]:
        said["tool_calls"] = calls
    return said


def _tool_call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = dumps({} if block.get("input") is None else block["input"]).decode()
    return {
        "id": block["id"],
        "type": "function",
        "function": {"name": block["name"], "arguments": arguments},
    }


def _tool_message(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content", "")
    parts = [{"type": "text", "text": content}] if type(content) is str else parts_of(content)
    message = {
        "role": "tool",
        "tool_call_id": block["tool_use_id"],
        "content": content_of(marked(parts, block)),
    }
    if "is_error" in block:
        message["is_error"] = block["is_error"]
    return message
