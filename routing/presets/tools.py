"""Tools of a preset in the words of each caller format, and beside those of a request.

A preset keeps tools as they were given, so these functions read all three ways of saying them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from routing.formats.messages.tools import CUSTOM, SEARCH_PREFIX
from routing.formats.server_tools import (
    ADVISOR,
    SERVER_PREFIX,
    SHORTHANDS,
    SUBAGENT,
    WEB_SEARCH,
    canonical_tool,
)

Tool = dict[str, Any]

_FUNCTION: Final = "function"
_FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")
# Tools of the gateway's own that a format does not offer.
_NOT_OFFERED: Final[Mapping[str, frozenset[str]]] = {
    "chat": frozenset({"router:apply_patch", "router:shell", "router:tool_search"}),
    "messages": frozenset({"router:apply_patch", "router:files"}),
    "responses": frozenset(),
}
# What is told apart by the name beside the type.
_NAMED: Final[Mapping[str, str]] = {
    "custom": "name",
    "namespace": "name",
    "mcp": "server_label",
}
# Kinds that only an upstream of the responses format runs.
_RESPONSES_ONLY: Final = frozenset(
    {
        *("file_search", "computer_use_preview", "code_interpreter", "mcp", "image_generation"),
        *("local_shell", "shell", "apply_patch", "custom", "namespace"),
    }
)


def union(kept: Sequence[Tool], given: Sequence[Any]) -> list[Any]:
    """A preset's tools in their order, each replaced where the request brings the same one, then
    what only the request has. What the request says may be anything: its check comes later."""
    own: dict[object, list[Any]] = {}
    for tool in given:
        own.setdefault(identity(tool), []).append(tool)
    tools: list[Any] = []
    placed: set[object] = set()
    for tool in kept:
        what = identity(tool)
        if what not in own:
            tools.append(tool)
        elif what not in placed:
            placed.add(what)
            tools += own[what]
    return tools + [tool for what, left in own.items() if what not in placed for tool in left]


def identity(tool: Any) -> object:
    """What makes two tools the same one: a function's name, an agent's type and name, else the
    type. What is no tool is like nothing else."""
    if not isinstance(tool, dict):
        return id(tool)
    if (function := _named_function(tool)) is not None:
        return _FUNCTION, _word(function)
    kind = canonical_tool(_word(tool.get("type")) or CUSTOM)
    if kind in (ADVISOR, SUBAGENT):
        settings = tool.get("parameters")
        inside = _word(settings.get("name")) if isinstance(settings, dict) else None
        name = inside or _word(tool.get("name"))
        return kind, name.strip() if name else None
    return kind, _word(tool.get(_NAMED[kind])) if kind in _NAMED else None


def _named_function(tool: Tool) -> Any:
    """The name of a function in any format's words; None for a tool that is none."""
    if tool.get("type") == _FUNCTION:
        function = tool.get("function")
        return function.get("name", "") if isinstance(function, dict) else tool.get("name", "")
    if tool.get("type") in (None, CUSTOM) and "input_schema" in tool:
        return tool.get("name", "")
    return None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def tools_in(format: str, tools: Iterable[Tool]) -> tuple[list[Tool], list[str]]:
    """A preset's tools as that format says them, and the kinds of those that nothing can run for
    this caller. What a message-style provider only describes is left out elsewhere, as it is in
    translation.
    """
    said: list[Tool] = []
    missing: list[str] = []
    for tool in tools:
        kind = tool.get("type") or CUSTOM
        if (function := _function(tool)) is not None:
            said.append(_WRITTEN[format](function, tool))
        elif kind in _NOT_OFFERED[format]:
            missing.append(kind)
        elif kind in SHORTHANDS or kind.startswith(SERVER_PREFIX):
            said.append(_server_tool(format, tool))
        elif _is_of(format, kind):
            said.append(tool)
        elif kind in _RESPONSES_ONLY or kind.startswith(SEARCH_PREFIX):
            missing.append(kind)
    return said, missing


def _is_of(format: str, kind: str) -> bool:
    """Whether a tool that some upstream runs is one of this caller's format."""
    if kind in _RESPONSES_ONLY:
        return format == "responses"
    return format == "messages"


def _function(tool: Tool) -> Tool | None:
    """The chat format's `function` object; None for a tool that is no function."""
    if _named_function(tool) is None:
        return None
    if "input_schema" in tool:
        return {**_given(tool, "name", "description", "strict"), "parameters": tool["input_schema"]}
    return _given(tool.get("function", tool), *_FUNCTION_KEYS)


def _given(value: Mapping[str, Any], *names: str) -> Tool:
    return {name: value[name] for name in names if value.get(name) is not None}


def _chat_function(function: Tool, tool: Tool) -> Tool:
    return {"type": _FUNCTION, "function": function, **_given(tool, "cache_control")}


def _responses_function(function: Tool, tool: Tool) -> Tool:
    said = {"type": _FUNCTION, "parameters": None, **function}
    return said | _given(tool, "cache_control", "defer_loading")


def _messages_function(function: Tool, tool: Tool) -> Tool:
    if "input_schema" in tool:
        return tool
    schema = {"type": "object", **function.get("parameters", {})}
    said = {**_given(function, "name", "description", "strict"), "input_schema": schema}
    return said | _given(tool, "cache_control")


_WRITTEN: Final = {
    "chat": _chat_function,
    "responses": _responses_function,
    "messages": _messages_function,
}


def _server_tool(format: str, tool: Tool) -> Tool:
    """Messages know web search by its own name only, settings inside."""
    if format != "messages" or tool["type"] not in SHORTHANDS:
        return tool
    settings = {name: value for name, value in tool.items() if name not in ("type", "parameters")}
    return {"type": WEB_SEARCH, "parameters": {**settings, **tool.get("parameters", {})}}
