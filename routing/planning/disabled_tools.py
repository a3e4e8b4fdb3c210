"""Server tools that a workspace has switched off (management reference 5.4)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.http.errors import PermissionDenied
from routing.formats.server_tools import (
    FUSION,
    SERVER_PREFIX,
    TOOL_SEARCH,
    WEB_FETCH,
    WEB_SEARCH,
    canonical_tool,
    list_named_models,
)
from routing.selection.model_references import parse_reference

# Plugins that do a server tool's work; `:online` behind a model is another spelling of the first.
_TOOL_OF_PLUGIN: Final[Mapping[str, str]] = {
    "web": WEB_SEARCH,
    "web-fetch": WEB_FETCH,
    "fusion": FUSION,
}
# Tools of which a provider has several kinds.
_FAMILIES: Final[Mapping[str, str]] = {
    "web_search": WEB_SEARCH,
    "tool_search_tool": TOOL_SEARCH,
}
_DATE: Final = re.compile(r"_\d{8}$")


class ToolDisabled(PermissionDenied):
    def __init__(self, tool: str) -> None:
        super().__init__(f'Server tool "{tool}" is disabled in this workspace')


def refuse_disabled_tools(
    disabled: frozenset[str],
    body: Mapping[str, Any],
    *,
    plugins: Iterable[Mapping[str, Any]] = (),
    references: Sequence[str] = (),
    native: Iterable[str] = (),
    nested: Iterable[str] = (),
) -> None:
    """Raise `ToolDisabled` where a request names a tool that is switched off, however it does.

    `body` is the checked request, after its preset: the tools that a tool may use count too, and
    the models that it asks.
    `plugins` are those in force, `references` the models named, `native` the types of tools that a
    provider would run, `nested` those of tools that the body does not show.
    """
    if not disabled:
        return
    named = [*_in_body(body), *_by_plugin(plugins), *_by_suffix(references), *_native(native)]
    named += map(canonical_tool, nested)
    off = next((tool for tool in named if tool in disabled), None)
    if off is not None:
        raise ToolDisabled(off)


def _in_body(body: Mapping[str, Any]) -> Iterator[str]:
    yield from _named(body.get("tools") or ())
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        yield from _named([choice])


def _named(tools: Iterable[Any]) -> Iterator[str]:
    for tool in tools:
        yield canonical_tool(tool.get("type", ""))
        parameters = tool.get("parameters")
        # A function's parameters are a schema, in which the word means something else.
        if str(tool.get("type", "")).startswith("router:") and isinstance(parameters, dict):
            yield from _named(parameters.get("tools") or ())
            yield from _by_suffix(list_named_models(tool["type"], parameters))


def _native(types: Iterable[str]) -> Iterator[str]:
    """A provider's own tool that does what one of ours does."""
    for each in types:
        name = _DATE.sub("", each.removeprefix("local_"))
        own = next((tool for start, tool in _FAMILIES.items() if name.startswith(start)), None)
        yield own or f"{SERVER_PREFIX}{name}"


def _by_plugin(plugins: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for plugin in plugins:
        tool = _TOOL_OF_PLUGIN.get(plugin["id"])
        if tool is not None and plugin.get("enabled", True):
            yield tool
            yield from _named(plugin.get("tools") or ())
            yield from _by_suffix(list_named_models(tool, plugin))


def _by_suffix(references: Sequence[str]) -> Iterator[str]:
    for reference in references:
        for effect in parse_reference(reference).effects:
            if effect.plugin is not None:
                yield _TOOL_OF_PLUGIN[effect.plugin]
