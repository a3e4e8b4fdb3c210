"""The server tools of a request: which exist, which its workspace has switched off, and how its
model sees them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.http.errors import InvalidRequest, PermissionDenied
from gateway.http.jsonio import JsonObject
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry
from routing.formats.caller import CallerFormat
from routing.formats.chat.request import ChatRequest, list_provider_tools
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.tools import is_search
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
from routing.plugins.texts import with_more_tools
from routing.selection.model_references import parse_reference
from routing.serving.request.loop import Loop, with_tools
from routing.tools.registry import list_asked_models, list_missing, parameters_of
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
    types = {canonical_tool(tool["type"]) for tool in tools}
    inside = [kind for kind in chat.server_tools if kind not in types]
    return list(dict.fromkeys((*list_missing(tools), *inside, *list_provider_tools(chat))))


def _missing_of_models(chat: ChatRequest) -> list[str]:
    """Plugins that suffixes of the models stand for which tools are to ask. What the request says
    of its own plugins is not said of theirs."""
    models = list_asked_models(chat.body.get("tools") or ())
    effects = {model: parse_reference(model).effects for model in models if ":" in model}
    plugins = [
        effect.plugin
        for model, model_effects in effects.items()
        for effect in model_effects
        if effect.plugin is not None and catalogue.current().model(model) is None
    ]
    return missing_plugins([{"id": each} for each in plugins])


def equip_request(chat: ChatRequest) -> tuple[ChatRequest, Loop | None]:
    """The request as its model is asked, and the loop where it names server tools."""
    if not chat.server_tools:
        return chat, None
    toolbox = Toolbox(chat.body["tools"], _list_called_functions(chat))
    return with_tools(chat, toolbox), Loop(chat, toolbox)


def _list_called_functions(chat: ChatRequest) -> Iterator[str]:
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
    default_reason = "tool_disabled"

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
    tools = [
        *_list_body_tools(body),
        *_list_plugin_tools(plugins),
        *_list_suffix_tools(references),
        *_list_native_tools(native),
    ]
    tools += map(canonical_tool, nested)
    off = next((tool for tool in tools if tool in disabled), None)
    if off is not None:
        raise ToolDisabled(off)


def _list_body_tools(body: Mapping[str, Any]) -> Iterator[str]:
    yield from _list_named_tools(body.get("tools") or ())
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        yield from _list_named_tools([choice])


def _list_named_tools(tools: Iterable[Any]) -> Iterator[str]:
    for tool in tools:
        yield canonical_tool(tool.get("type", ""))
        parameters = tool.get("parameters")
        # A function's parameters are a schema, in which the word means something else.
        if str(tool.get("type", "")).startswith("router:") and isinstance(parameters, dict):
            yield from _list_named_tools(parameters.get("tools") or ())
            yield from _list_suffix_tools(list_named_models(tool["type"], parameters))


def _list_native_tools(types: Iterable[str]) -> Iterator[str]:
    """A provider's own tool that does what one of ours does."""
    for each in types:
        name = _DATE.sub("", each.removeprefix("local_"))
        own = next((tool for start, tool in _FAMILIES.items() if name.startswith(start)), None)
        yield own or f"{SERVER_PREFIX}{name}"


def _list_plugin_tools(plugins: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for plugin in plugins:
        tool = _TOOL_OF_PLUGIN.get(plugin["id"])
        if tool is not None and plugin.get("enabled", True):
            yield tool
            yield from _list_named_tools(plugin.get("tools") or ())
            yield from _list_suffix_tools(list_named_models(tool, plugin))


def _list_suffix_tools(references: Sequence[str]) -> Iterator[str]:
    for reference in references:
        for effect in parse_reference(reference).effects:
            if effect.plugin is not None:
                yield _TOOL_OF_PLUGIN[effect.plugin]


# What the tool of the messages format calls otherwise.
_RENAMED: Final = {"blocked_domains": "excluded_domains"}
# Choices of the messages format that name no tool.
_IN_A_WORD: Final[Mapping[Any, str]] = {"none": "none", "auto": "auto", "any": "required"}
_IN_BOTH: Final = (
    *("max_uses", "max_results", "max_total_results", "max_characters", "search_context_size"),
    *("user_location", "allowed_domains", "excluded_domains", "engine", "mode"),
)


def search_here(chat: ChatRequest) -> ChatRequest:
    """The request with the gateway's search where it named its provider's; itself where it named
    none, other tools of the provider too, or where nothing searches here."""
    if not chat.native_tools or not all(map(_is_search, chat.native_tools)):
        return chat
    tools = _original_tools(chat)
    search = next((tool for tool in tools if _is_search(tool.get("type"))), None)
    if search is None:
        return chat
    tool = {"type": WEB_SEARCH, "parameters": _parameters(search)}
    if list_missing([tool]):
        return chat
    if not _may_search(chat):
        return replace(chat, native_tools=())
    searching = with_more_tools(chat, [tool])
    chosen = _choose_search(chat)
    return replace(
        searching,
        body=searching.body | chosen,
        supplied_parameters=frozenset((*searching.supplied_parameters, *chosen)),
        native_tools=(),
        original=_without_searches(chat),
    )


def search_beside_own_tools(chat: ChatRequest) -> ChatRequest:
    """The same where the gateway's own tools are named too: one loop cannot have two authors."""
    return search_here(chat) if chat.server_tools else chat


def search_without_provider(
    chat: ChatRequest, models: Sequence[ModelEntry], format: CallerFormat
) -> ChatRequest:
    """The same where none of the models has an endpoint that speaks the caller's format."""
    if not chat.native_tools or not models:
        return chat
    kinds = frozenset({format.wire})
    if any(each.serves(kinds) for model in models for each in model.endpoints):
        return chat
    return search_here(chat)


def _is_search(kind: object) -> bool:
    return isinstance(kind, str) and is_search(kind)


def _original_tools(chat: ChatRequest) -> list[JsonObject]:
    tools: list[JsonObject] = (chat.original or {}).get("tools") or []
    return tools


def _parameters(tool: Mapping[str, Any]) -> JsonObject:
    """The settings in the gateway's words; `filters` is where OpenAI keeps the domains."""
    settings = {**tool, **parameters_of(tool)}
    filters = settings.get("filters")
    if isinstance(filters, dict) and _are_texts(filters.get("allowed_domains")):
        settings.setdefault("allowed_domains", filters["allowed_domains"])
    settings |= {ours: settings[theirs] for theirs, ours in _RENAMED.items() if theirs in settings}
    return {name: settings[name] for name in _IN_BOTH if settings.get(name) is not None}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _original_choice(chat: ChatRequest) -> Any:
    return (chat.original or {}).get("tool_choice")


def _may_search(chat: ChatRequest) -> bool:
    """Whether the model may search: a list of allowed tools may leave the search out."""
    choice = _original_choice(chat)
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return True
    return any(_is_search(tool.get("type")) for tool in choice["tools"])


def _choose_search(chat: ChatRequest) -> JsonObject:
    """What the caller said of calls, where the translation lost it with the provider's tool."""
    choice = _original_choice(chat)
    fields: JsonObject = {}
    if choice is not None and "tool_choice" not in chat.body:
        chosen = _chosen_search(choice) if isinstance(choice, dict) else choice
        fields |= {"tool_choice": chosen} if chosen else {}
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields


def _chosen_search(choice: Mapping[str, Any]) -> Any:
    """A choice of the provider's search is one of the gateway's. None for one of another tool."""
    kind = choice.get("type")
    if _is_search(kind) or choice.get("name") == "web_search":
        return {"type": WEB_SEARCH}
    return choice["mode"] if kind == "allowed_tools" else _IN_A_WORD.get(kind)


def _without_searches(chat: ChatRequest) -> JsonObject | None:
    """What `equipping` looks for tools of a provider in; responses repeat it to the caller."""
    if chat.original is None or chat.format != MESSAGES.name:
        return chat.original
    rest = [tool for tool in _original_tools(chat) if not _is_search(tool.get("type"))]
    return {**chat.original, "tools": rest}
