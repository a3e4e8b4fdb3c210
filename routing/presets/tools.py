"""Tools, `tool_choice` and `response_format` of a preset in the words of each caller format.

A preset keeps tools as they were given, so these functions read the forms of all three formats."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.formats.messages.tools import CUSTOM, SEARCH_PREFIX
from routing.formats.server_tools import (
    ADVISOR,
    SERVER_PREFIX,
    SHORTHANDS,
    SUBAGENT,
    TOOLS,
    WEB_SEARCH,
    canonical_tool,
    tool_names,
)

Tool = JsonObject

_FUNCTION: Final = "function"
_FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")
# Server tools that a format does not offer.
_NOT_OFFERED: Final[Mapping[str, frozenset[str]]] = {
    format: frozenset(TOOLS).difference(tool_names(format))
    for format in ("chat", "messages", "responses")
}
# Types of tools of which a request may have several, and the field that distinguishes them.
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


def merge_tools(preset_tools: Sequence[Tool], own_tools: Sequence[Any]) -> list[Any]:
    """The preset's tools in their order, each replaced by the request's same tool if there is one,
    then the request's other tools. `own_tools` are not yet validated."""
    own: dict[object, list[Any]] = {}
    for tool in own_tools:
        own.setdefault(tool_identity(tool), []).append(tool)
    tools: list[Any] = []
    placed: set[object] = set()
    for tool in preset_tools:
        what = tool_identity(tool)
        if what not in own:
            tools.append(tool)
        elif what not in placed:
            placed.add(what)
            tools += own[what]
    return tools + [tool for what, same in own.items() if what not in placed for tool in same]


def tool_identity(tool: object) -> object:
    """The key by which tools are the same: a function's name, an agent's type and name, else the
    type. A value that is no tool has a key of its own."""
    if not isinstance(tool, dict):
        return id(tool)
    if (function := _function_name(tool)) is not None:
        return _FUNCTION, _text_or_none(function)
    kind = canonical_tool(_text_or_none(tool.get("type")) or CUSTOM)
    if kind in (ADVISOR, SUBAGENT):
        settings = tool.get("parameters")
        inside = _text_or_none(settings.get("name")) if isinstance(settings, dict) else None
        name = inside or _text_or_none(tool.get("name"))
        return kind, name.strip() if name else None
    return kind, _text_or_none(tool.get(_NAMED[kind])) if kind in _NAMED else None


def _function_name(tool: Tool) -> Any:
    """The name of a function tool of any format; None for other tools."""
    if tool.get("type") == _FUNCTION:
        function = tool.get("function")
        return function.get("name", "") if isinstance(function, dict) else tool.get("name", "")
    if tool.get("type") in (None, CUSTOM) and "input_schema" in tool:
        return tool.get("name", "")
    return None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def convert_tools(format: str, tools: Iterable[Tool]) -> tuple[list[Tool], list[str]]:
    """A preset's tools in that format, and the types of those that nothing can run for this
    caller. Provider tools of messages are dropped in other formats, as in translation.
    """
    converted: list[Tool] = []
    missing: list[str] = []
    for tool in tools:
        kind = tool.get("type") or CUSTOM
        if _function_name(tool) is not None:
            # The chat format's `function` object.
            if "input_schema" in tool:
                function = _pick(tool, "name", "description", "strict")
                function["parameters"] = tool["input_schema"]
            else:
                function = _pick(tool.get("function", tool), *_FUNCTION_KEYS)
            converted.append(_FUNCTION_WRITERS[format](function, tool))
        elif kind in _NOT_OFFERED[format]:
            missing.append(kind)
        elif kind in SHORTHANDS or kind.startswith(SERVER_PREFIX):
            if format == "messages" and kind in SHORTHANDS:
                # Messages have no shorthands of web search: write its own name.
                settings = {
                    name: value
                    for name, value in tool.items()
                    if name not in ("type", "parameters")
                }
                settings |= tool.get("parameters", {})
                tool = {"type": WEB_SEARCH, "parameters": settings}
            converted.append(tool)
        elif format == ("responses" if kind in _RESPONSES_ONLY else "messages"):
            # It is run by upstreams of this format.
            converted.append(tool)
        elif kind in _RESPONSES_ONLY or kind.startswith(SEARCH_PREFIX):
            missing.append(kind)
    return converted, missing


def _pick(value: Mapping[str, Any], *names: str) -> Tool:
    return {name: value[name] for name in names if value.get(name) is not None}


def _write_messages_function(function: Tool, tool: Tool) -> Tool:
    if "input_schema" in tool:
        return tool
    schema = {"type": "object", **function.get("parameters", {})}
    written = {**_pick(function, "name", "description", "strict"), "input_schema": schema}
    return written | _pick(tool, "cache_control")


_FUNCTION_WRITERS: Final[Mapping[str, Callable[[Tool, Tool], Tool]]] = {
    "chat": lambda function, tool: {
        "type": _FUNCTION,
        "function": function,
        **_pick(tool, "cache_control"),
    },
    "responses": lambda function, tool: {
        "type": _FUNCTION,
        "parameters": None,
        **function,
        **_pick(tool, "cache_control", "defer_loading"),
    },
    "messages": _write_messages_function,
}


# Modes of messages, and their names in the other formats.
_MODES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
_IN_MESSAGES: Final[Mapping[str, str]] = {mode: kind for kind, mode in _MODES.items()}


class PresetToolChoice(NamedTuple):
    """A mode, a function's name or a server tool's type (`kind`); `given` is the preset's value."""

    given: Any
    mode: str | None = None
    name: str | None = None
    kind: str | None = None


def forbids_parallel_calls(given: object) -> bool:
    """Whether a choice of the messages format forbids parallel calls."""
    return isinstance(given, dict) and given.get("disable_parallel_tool_use") is True


def convert_choice(format: str, given: Any, tools: Sequence[JsonObject]) -> Any:
    """The choice in that format; None if the format cannot express it or the tool is missing."""
    kind = None if isinstance(given, str) else given["type"]
    if kind is None:
        choice = PresetToolChoice(given, mode=given)
    elif kind in _MODES:
        choice = PresetToolChoice(given, mode=_MODES[kind])
    elif kind in ("function", "tool"):
        choice = PresetToolChoice(given, name=given.get("function", given)["name"])
    elif kind == "allowed_tools":
        choice = PresetToolChoice(given, mode=given["mode"])
    elif kind in ("custom", "mcp"):
        # Only the responses format has such a choice.
        return given if format == "responses" else None
    else:
        choice = PresetToolChoice(given, kind=canonical_tool(kind))
    return _CHOICE_WRITERS[format](choice, {tool_identity(tool) for tool in tools})


def _resolve_server_tool(choice: PresetToolChoice, tools: set[object]) -> PresetToolChoice:
    """The choice, with a name that means a server tool turned into its type: messages name server
    tools like functions."""
    own = f"{SERVER_PREFIX}{choice.name}"
    if choice.name is None or ("function", choice.name) in tools or (own, None) not in tools:
        return choice
    return choice._replace(name=None, kind=own)


def _write_chat_choice(choice: PresetToolChoice, tools: set[object]) -> Any:
    choice = _resolve_server_tool(choice, tools)
    if choice.mode is not None:
        return choice.mode
    if choice.kind is not None:
        return {"type": choice.kind} if (choice.kind, None) in tools else None
    chosen = {"type": "function", "function": {"name": choice.name}}
    return chosen if ("function", choice.name) in tools else None


def _write_responses_choice(choice: PresetToolChoice, tools: set[object]) -> Any:
    given = choice.given
    if isinstance(given, dict) and given["type"] == "allowed_tools":
        return given
    choice = _resolve_server_tool(choice, tools)
    if choice.mode is not None:
        return choice.mode
    if choice.kind is not None:
        # In responses a shorthand is a tool of its own.
        kind = choice.kind if given["type"] == "tool" else given["type"]
        return {"type": kind} if (choice.kind, None) in tools else None
    chosen = {"type": "function", "name": choice.name}
    return chosen if ("function", choice.name) in tools else None


def _write_messages_choice(choice: PresetToolChoice, tools: set[object]) -> Any:
    if isinstance(choice.given, dict) and choice.given["type"] in (*_MODES, "tool"):
        return choice.given
    if choice.mode is not None:
        return {"type": _IN_MESSAGES[choice.mode]}
    if choice.kind is not None:
        chosen = {"type": "tool", "name": choice.kind.removeprefix(SERVER_PREFIX)}
        return chosen if (choice.kind, None) in tools else None
    named = {"type": "tool", "name": choice.name}
    return named if ("function", choice.name) in tools else None


_CHOICE_WRITERS: Final[Mapping[str, Callable[[PresetToolChoice, set[object]], Any]]] = {
    "chat": _write_chat_choice,
    "responses": _write_responses_choice,
    "messages": _write_messages_choice,
}


def chat_response_format(form: JsonObject) -> JsonObject:
    """A preset's `response_format` in the form of chat."""
    if form["type"] != "json_schema" or "json_schema" in form:
        return form
    named = {name: value for name, value in form.items() if name != "type" and value is not None}
    # Messages give the schema no name and always mean it strictly.
    unnamed = {} if "name" in named else {"name": "response", "strict": True}
    return {"type": "json_schema", "json_schema": {**unnamed, **named}}


def text_format(form: JsonObject) -> JsonObject | None:
    """A preset's `response_format` as `text.format` of responses; None if it has no such format."""
    form = chat_response_format(form)
    if form["type"] != "json_schema":
        return form if form["type"] in ("text", "json_object") else None
    fields = {name: value for name, value in form["json_schema"].items() if value is not None}
    return {"type": "json_schema", "schema": {}, **fields}
