"""A responses request as far as the simulated model understands it, in the chat shape."""

from collections.abc import Iterator
from typing import Any

from routing.simulator.encoding import JsonObject

TEXTS = ("input_text", "output_text", "text")


def read_as_chat(body: JsonObject) -> JsonObject:
    tools = [tool for tool in list_objects(body.get("tools")) if tool.get("type") == "function"]
    shape: JsonObject = (body.get("text") or {}).get("format") or {}
    if shape.get("type") == "json_schema":
        shape = {"type": "json_schema", "json_schema": {"schema": shape.get("schema")}}
    return {
        "model": body.get("model"),
        "messages": list(_read_messages(body)),
        "tools": [{"type": "function", "function": tool} for tool in tools],
        "tool_choice": body.get("tool_choice"),
        "parallel_tool_calls": body.get("parallel_tool_calls"),
        "max_tokens": body.get("max_output_tokens"),
        "response_format": shape or None,
        "service_tier": body.get("service_tier"),
        "thinks": _is_thinking(body),
    }


def list_objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def list_items(body: JsonObject) -> list[JsonObject]:
    """The input items; a string is what a user says."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list_objects(given)


def _read_messages(body: JsonObject) -> Iterator[JsonObject]:
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    for item in list_items(body):
        kind = item.get("type", "message")
        if kind == "message":
            yield {"role": item.get("role"), "content": _read_content(item.get("content"))}
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield {"role": "tool", "content": _read_content(item.get("output"))}


def _read_content(content: object) -> Any:
    if not isinstance(content, list):
        return content
    parts: list[JsonObject] = []
    for part in list_objects(content):
        if part.get("type") in TEXTS:
            parts.append({"type": "text", "text": part.get("text")})
        elif part.get("type") == "input_image":
            parts.append({"type": "image_url"})
    return parts


def _is_thinking(body: JsonObject) -> bool:
    """Models whose name contains "reason" always think; the others when asked to."""
    wanted = body.get("reasoning") or {}
    named = "reason" in str(body.get("model"))
    return wanted.get("effort") != "none" and (named or wanted.get("effort") is not None)
