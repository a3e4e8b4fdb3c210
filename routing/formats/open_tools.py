"""Settings of server tools that stand beside `type` instead of in `parameters`.

Callers know this open form from other gateways, so every format takes it. `parameters` win over a
setting beside `type`. A field that the tool does not name stays where it is.
"""

from collections.abc import Collection
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.formats.server_tools import IMAGE_GENERATION, INHERITING, SUBAGENT, TOOLS

Tool = JsonObject

_SETTINGS: Final[dict[str, Collection[str]]] = {
    name: spec.setting_names | (frozenset(INHERITING) if name == SUBAGENT else frozenset())
    for name, spec in TOOLS.items()
    if spec.setting_names
}
# What a tool has in any case, settings or not.
_FRAME_KEYS: Final = frozenset({"type", "parameters", "cache_control"})
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
    if "tools" not in body and "plugins" not in body:
        return body
    changed = {}
    for name, inside in (("tools", _move_all), ("plugins", _move_in_plugins)):
        value = body.get(name)
        if value and type(value) is list and (moved := inside(value)) is not value:
            changed[name] = moved
    return {**body, **changed} if changed else body


def _move_all(tools: list[Any]) -> list[Any]:
    moved = [_move_one(tool) if type(tool) is dict else tool for tool in tools]
    return tools if all(new is old for new, old in zip(moved, tools, strict=True)) else moved


def _move_in_plugins(plugins: list[Any]) -> list[Any]:
    moved = [_move_nested(plugin) if type(plugin) is dict else plugin for plugin in plugins]
    return plugins if all(new is old for new, old in zip(moved, plugins, strict=True)) else moved


def _move_one(tool: Tool) -> Tool:
    kind = tool.get("type")
    if kind == "function" or type(kind) is not str:
        return tool
    if kind == "namespace":
        return _move_nested(tool)
    parameters = {} if tool.get("parameters") is None else tool["parameters"]
    outer = _outer_settings(kind, tool)
    if type(parameters) is not dict or not (outer or parameters):
        # What is wrong with it is said where it is checked.
        return tool
    settings = _move_nested({**outer, **_drop_nulls(parameters)} if outer else parameters)
    if settings is parameters:
        return tool
    rest = {name: each for name, each in tool.items() if name not in outer or name == _NAME}
    return rest | {"parameters": settings}


def _outer_settings(kind: str, tool: Tool) -> JsonObject:
    if kind == IMAGE_GENERATION:
        # Any setting of pictures is one.
        settings = {name: each for name, each in tool.items() if name not in _COMMON_KEYS}
        return _drop_nulls(settings)
    names = _SETTINGS.get(kind)
    if names is None:
        return {}
    settings = {
        name: each for name, each in tool.items() if name in names and name not in _FRAME_KEYS
    }
    return _drop_nulls(settings)


def _drop_nulls(settings: JsonObject) -> JsonObject:
    return {name: each for name, each in settings.items() if each is not None}


def _move_nested(holder: JsonObject) -> JsonObject:
    """The same for tools that something else holds in its `tools`."""
    tools = holder.get("tools")
    if not tools or type(tools) is not list or (moved := _move_all(tools)) is tools:
        return holder
    return {**holder, "tools": moved}
