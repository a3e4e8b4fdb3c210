"""A messages request as far as the simulated model understands it, in the chat shape."""

from collections.abc import Iterable, Iterator
from typing import Any

CHOICES = {"any": "required", "auto": "auto", "none": "none"}


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": body.get("model"),
        "messages": list(_messages(body)),
        "tools": [_function(tool) for tool in listed(body, "tools") if "input_schema" in tool],
        "max_tokens": body.get("max_tokens"),
        "stop": body.get("stop_sequences"),
        "response_format": _response_format(body),
        "thinks": (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"),
        **_choice(body.get("tool_choice")),
    }


def listed(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list; a string stands for one text block."""
    value = owner.get(name)
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _messages(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    system = listed(body, "system")
    if system:
        yield {"role": "system", "content": list(parts(system))}
    for message in listed(body, "messages"):
        blocks = listed(message, "content")
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for result in results:
            yield {"role": "tool", "content": list(parts(listed(result, "content")))}
        others = [block for block in blocks if block.get("type") != "tool_result"]
        if others or not results:
            yield {"role": message.get("role"), "content": list(parts(others))}


def parts(blocks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Text and images; whatever else there is counts for nothing."""
    for block in blocks:
        if block.get("type") == "text":
            yield {"type": "text", "text": block.get("text")}
        elif block.get("type") == "image":
            yield {"type": "image_url"}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _choice(choice: Any) -> dict[str, Any]:
    if not isinstance(choice, dict):
        return {}
    kind = choice.get("type")
    named = {"type": "function", "function": {"name": choice.get("name")}}
    return {
        "tool_choice": named if kind == "tool" else CHOICES.get(str(kind), "auto"),
        "parallel_tool_calls": choice.get("disable_parallel_tool_use") is not True,
    }


def _response_format(body: dict[str, Any]) -> dict[str, Any] | None:
    wanted = (body.get("output_config") or {}).get("format") or {}
    if wanted.get("type") != "json_schema":
        return None
    return {"type": "json_schema", "json_schema": {"schema": wanted.get("schema")}}
