"""The server tools of a request: which exist, which its workspace has switched off, and how its
model sees them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.http.errors import InvalidRequest, PermissionDenied
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import ChatRequest, list_provider_tools
from routing.formats.server_tools import (
    FUSION,
    SERVER_PREFIX,
    TOOL_SEARCH,
    WEB_FETCH,
    WEB_SEARCH,
    canonical_tool,
    list_named_models,
)
from routing.plugins.registry import list_missing as missing_plugins
from routing.selection.model_references import parse_reference
from routing.serving.request.loop import Loop, with_tools
from routing.tools.registry import list_asked_models, list_missing
from routing.tools.toolbox import Toolbox


def refuse_what_nothing_runs(chat: ChatRequest) -> None:
    """Raise `InvalidRequest` for server tools and plugins without a backend."""
    lacking = missing_plugins(chat.plugins)
    if chat.server_tools:
        lacking = _missing_tools(chat) + lacking + _missing_of_models(chat)
    if lacking:
        raise InvalidRequest(f"server tool not available: {', '.join(dict.fromkeys(lacking))}")


def _missing_tools(chat: ChatRequest) -> list[str]:
    """Tools that nothing here runs. Those that a provider runs cannot stand beside the gateway's,
    nor the gateway's inside of them: what is told to the model has one author."""
    tools = chat.body.get("tools") or ()
    named = {canonical_tool(tool["type"]) for tool in tools}
    inside = [kind for kind in chat.server_tools if kind not in named]
    return list(dict.fromkeys((*list_missing(tools), *inside, *list_provider_tools(chat))))


def _missing_of_models(chat: ChatRequest) -> list[str]:
    """Plugins that suffixes of the models stand for which tools are to ask. What the request says
    of its own plugins is not said of theirs."""
    models = list_asked_models(chat.body.get("tools") or ())
    effects = {model: parse_reference(model).effects for model in models if ":" in model}
    named = [
        effect.plugin
        for model, found in effects.items()
        for effect in found
        if effect.plugin is not None and catalogue.current().model(model) is None
    ]
    return missing_plugins([{"id": each} for each in named])


def equipped(chat: ChatRequest) -> tuple[ChatRequest, Loop | None]:
    """The request as its model is asked, and the loop where it names server tools."""
    if not chat.server_tools:
        return chat, None
    toolbox = Toolbox(chat.body["tools"], _called(chat))
    return with_tools(chat, toolbox), Loop(chat, toolbox)


def _called(chat: ChatRequest) -> Iterator[str]:
    """The functions that the conversation has calls of, or that the model is to call."""
    if TOOL_SEARCH not in chat.server_tools:
        return
    for message in chat.body["messages"]:
        yield from (call["function"]["name"] for call in message.get("tool_calls") or ())
    choice = chat.body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] == "function":
        yield choice["function"]["name"]


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
