"""The classes that run server tools, by the specs of `routing.formats.server_tools`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from django.utils.module_loading import import_string

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.formats.server_tools import TOOLS, WEB_SEARCH, canonical_tool, list_named_models
from routing.tools.interface import Maker

BUILT_IN: Final[Mapping[str, Maker]] = {
    name: import_string(spec.maker) for name, spec in TOOLS.items()
}


def maker_of(kind: str) -> Maker | None:
    """The maker of a tool of that type (`router:...`); None if there is none. A backend that the
    operator configured (`ROUTER_TOOL_BACKENDS`) takes precedence."""
    path = settings.ROUTER_TOOL_BACKENDS.get(kind)
    return import_string(path) if path else BUILT_IN.get(kind)


def list_missing(tools: Iterable[JsonObject]) -> list[str]:
    """The types of server tools that are not available here, among checked tools and the tools in
    their settings."""
    missing: dict[str, None] = {}
    for kind, given in _walk_tools(tools):
        # A backend that the operator configured is taken to be available.
        if kind not in settings.ROUTER_TOOL_BACKENDS:
            tool = BUILT_IN.get(kind)
            is_available = getattr(tool, "is_available", None)
            if tool is None or not (is_available is None or is_available(given)):
                missing[kind] = None
    return list(missing)


def list_asked_models(tools: Iterable[JsonObject]) -> list[str]:
    """The models that the settings of checked server tools name."""
    return [
        model
        for kind, settings in _walk_tools(tools)
        for model in list_named_models(kind, settings)
    ]


def parameters_of(tool: Mapping[str, Any]) -> JsonObject:
    """The settings of a checked server tool; those of a shorthand may stand beside its type."""
    inner: JsonObject = tool.get("parameters") or {}
    if canonical_tool(tool["type"]) != WEB_SEARCH:
        return inner
    return {name: each for name, each in tool.items() if name not in _FRAME} | inner


_FRAME: Final = frozenset({"type", "parameters", "name", "cache_control"})


def _walk_tools(tools: Iterable[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    for tool in tools:
        if tool["type"] != "function":
            settings = parameters_of(tool)
            yield canonical_tool(tool["type"]), settings
            yield from _walk_tools(settings.get("tools") or ())
