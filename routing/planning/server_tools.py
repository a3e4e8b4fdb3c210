"""The server tools of a request: which exist, which its workspace has switched off, and how its
model sees them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.http.errors import InvalidRequest, PermissionDenied
from gateway.http.jsonio import JsonObject
from routing.catalogue.snapshot import catalogue
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
from routing.plugins.interface import with_more_tools
from routing.plugins.registry import list_missing as missing_plugins
from routing.selection.model_references import parse_reference
from routing.serving.request.loop import Loop, with_tools
from routing.tools.registry import list_asked_models, list_missing, parameters_of
from routing.tools.toolbox import Toolbox


def refuse_what_nothing_runs(chat: ChatRequest) -> None:
    """Raise `InvalidRequest` for server tools and plugins without a backend."""
    lacking = missing_plugins(chat.plugins)
    if chat.server_tools:
        tools = chat.body.get("tools") or ()
        types = {canonical_tool(tool["type"]) for tool in tools}
        # Tools that a provider runs cannot stand beside the gateway's, nor the gateway's inside of
        # them: one side alone describes tools to the model.
        inside = [kind for kind in chat.server_tools if kind not in types]
        # Plugins that suffixes of the models stand for which tools are to ask. What the request
        # says of its own plugins is not said of theirs.
        plugins = [
            {"id": effect.plugin}
            for model in dict.fromkeys(list_asked_models(tools))
            if ":" in model
            for effect in parse_reference(model).effects
            if effect.plugin is not None and catalogue.current().model(model) is None
        ]
        lacking = [
            *(*list_missing(tools), *inside, *list_provider_tools(chat)),
            *(*lacking, *missing_plugins(plugins)),
        ]
    if lacking:
        raise InvalidRequest(f"server tool not available: {', '.join(dict.fromkeys(lacking))}")


def equip_request(chat: ChatRequest) -> tuple[ChatRequest, Loop | None]:
    """The request as its model is asked, and the loop where it names server tools."""
    if not chat.server_tools:
        return chat, None
    # The functions that the conversation has calls of, or that the model is to call.
    called: list[str] = []
    if TOOL_SEARCH in chat.server_tools:
        for message in chat.body["messages"]:
            called += [call["function"]["name"] for call in message.get("tool_calls") or ()]
        choice = chat.body.get("tool_choice")
        if isinstance(choice, dict) and choice["type"] == "function":
            called.append(choice["function"]["name"])
    toolbox = Toolbox(chat.body["tools"], called)
    return with_tools(chat, toolbox), Loop(chat, toolbox)


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
    `plugins` are those in force, `references` the models named. `native` has the types of tools
    that a provider would run, `nested` those of tools that the body does not show.
    """
    if not disabled:
        return
    tools = [*_list_named_tools(body.get("tools") or ())]
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        tools += _list_named_tools([choice])
    for plugin in plugins:
        tool = _TOOL_OF_PLUGIN.get(plugin["id"])
        if tool is not None and plugin.get("enabled", True):
            tools += [tool, *_list_named_tools(plugin.get("tools") or ())]
            tools += _list_suffix_tools(list_named_models(tool, plugin))
    tools += _list_suffix_tools(references)
    for each in native:
        # A provider's own tool that does what one of ours does.
        name = _DATE.sub("", each.removeprefix("local_"))
        own = next((tool for start, tool in _FAMILIES.items() if name.startswith(start)), None)
        tools.append(own or f"{SERVER_PREFIX}{name}")
    tools += map(canonical_tool, nested)
    off = next((tool for tool in tools if tool in disabled), None)
    if off is not None:
        raise ToolDisabled(off)


def _list_named_tools(tools: Iterable[Any]) -> Iterator[str]:
    for tool in tools:
        yield canonical_tool(tool.get("type", ""))
        parameters = tool.get("parameters")
        # A function's parameters are a schema, in which the word means something else.
        if str(tool.get("type", "")).startswith("router:") and isinstance(parameters, dict):
            yield from _list_named_tools(parameters.get("tools") or ())
            yield from _list_suffix_tools(list_named_models(tool["type"], parameters))


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
    """The request with the gateway's search where it named its provider's. It is returned as it is
    where it named none, other tools of the provider too, or where nothing searches here."""
    if not chat.native_tools or not all(map(_is_search, chat.native_tools)):
        return chat
    tools: list[JsonObject] = (chat.original or {}).get("tools") or []
    search = next((tool for tool in tools if _is_search(tool.get("type"))), None)
    if search is None:
        return chat
    tool = {"type": WEB_SEARCH, "parameters": _read_parameters(search)}
    if list_missing([tool]):
        return chat
    choice: Any = (chat.original or {}).get("tool_choice")
    is_list = isinstance(choice, dict) and choice.get("type") == "allowed_tools"
    if is_list and not any(_is_search(tool.get("type")) for tool in choice["tools"]):
        # The tools that are allowed leave the search out.
        return replace(chat, native_tools=())
    searching = with_more_tools(chat, [tool])
    chosen, original = _choose_search(chat, choice), chat.original
    if original is not None and chat.format == MESSAGES.name:
        # Where tools of a provider are looked for; responses repeat it to the caller.
        rest = [each for each in tools if not _is_search(each.get("type"))]
        original = {**original, "tools": rest}
    return replace(
        searching,
        body=searching.body | chosen,
        supplied_parameters=frozenset((*searching.supplied_parameters, *chosen)),
        native_tools=(),
        original=original,
    )


def _is_search(kind: object) -> bool:
    return isinstance(kind, str) and is_search(kind)


def _read_parameters(tool: Mapping[str, Any]) -> JsonObject:
    """The settings in the gateway's words; `filters` is where OpenAI keeps the domains."""
    settings = {**tool, **parameters_of(tool)}
    filters = settings.get("filters")
    domains = filters.get("allowed_domains") if isinstance(filters, dict) else None
    if isinstance(domains, list) and all(isinstance(each, str) for each in domains):
        settings.setdefault("allowed_domains", domains)
    settings |= {ours: settings[theirs] for theirs, ours in _RENAMED.items() if theirs in settings}
    return {name: settings[name] for name in _IN_BOTH if settings.get(name) is not None}


def _choose_search(chat: ChatRequest, choice: Any) -> JsonObject:
    """What the caller said of calls, where the translation lost it with the provider's tool. A
    choice of the provider's search becomes one of the gateway's; one of another tool is dropped."""
    fields: JsonObject = {}
    if choice is not None and "tool_choice" not in chat.body:
        chosen, kind = choice, choice.get("type") if isinstance(choice, dict) else None
        if _is_search(kind) or (isinstance(choice, dict) and choice.get("name") == "web_search"):
            chosen = {"type": WEB_SEARCH}
        elif isinstance(choice, dict):
            chosen = choice["mode"] if kind == "allowed_tools" else _IN_A_WORD.get(kind)
        fields |= {"tool_choice": chosen} if chosen else {}
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields
