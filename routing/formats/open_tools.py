"""Settings of server tools that stand beside `type` instead of in `parameters`.

Callers know this open form from other gateways, so every format takes it. `parameters` win over a
setting beside `type`. A field that the tool does not name stays where it is.
"""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.formats.server_tools import IMAGE_GENERATION, INHERITING, SUBAGENT, TOOLS

# What a tool has in any case, settings or not.
_FRAME_KEYS: Final = frozenset({"type", "parameters", "cache_control"})
_SETTINGS: Final = {
    name: (spec.setting_names | set(INHERITING if name == SUBAGENT else ())) - _FRAME_KEYS
    for name, spec in TOOLS.items()
    if spec.setting_names
}
# An agent's own name is also what a choice of tools says.
_NAME: Final = "name"
# What else callers write beside any tool's type, so that it is no setting of pictures.
_COMMON_KEYS: Final = _FRAME_KEYS | {
    _NAME,
    "description",
    "strict",
    "defer_loading",
    "input_schema",
}


def move_tool_settings(body: JsonObject) -> JsonObject:
    """A caller's body, unchecked, with every setting of a server tool in its `parameters`; the same
    object where there is nothing to move."""
    changed = {}
    for name, move in (("tools", _move_one), ("plugins", _move_nested)):
        value = body.get(name)
        if value and type(value) is list and (moved := _move_all(value, move)) is not value:
            changed[name] = moved
    return {**body, **changed} if changed else body


def _move_all(items: list[Any], move: Callable[[JsonObject], JsonObject]) -> list[Any]:
    moved = [move(item) if type(item) is dict else item for item in items]
    return items if all(new is old for new, old in zip(moved, items, strict=True)) else moved


def _move_one(tool: JsonObject) -> JsonObject:
    kind = tool.get("type")
    if kind == "function" or type(kind) is not str:
        return tool
    if kind == "namespace":
        return _move_nested(tool)
    parameters = {} if tool.get("parameters") is None else tool["parameters"]
    if kind == IMAGE_GENERATION:
        # Any setting of pictures is one.
        names = tool.keys() - _COMMON_KEYS
    else:
        names = tool.keys() & _SETTINGS.get(kind, frozenset())
    outer = {name: each for name, each in tool.items() if name in names and each is not None}
    if type(parameters) is not dict or not (outer or parameters):
        # The check of the tool says what is wrong with it.
        return tool
    given = {name: each for name, each in parameters.items() if each is not None}
    settings = _move_nested({**outer, **given} if outer else parameters)
    if settings is parameters:
        return tool
    rest = {name: each for name, each in tool.items() if name not in outer or name == _NAME}
    return rest | {"parameters": settings}


def _move_nested(holder: JsonObject) -> JsonObject:
    """The same for tools that something else holds in its `tools`."""
    tools = holder.get("tools")
    if not tools or type(tools) is not list or (moved := _move_all(tools, _move_one)) is tools:
        return holder
    return {**holder, "tools": moved}
