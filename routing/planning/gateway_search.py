"""Web search that a provider would run, run here instead.

A caller may name the search of its own format's provider. Where no endpoint of that kind is there,
or the gateway's own tools stand beside it, the gateway's search does the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.entities.entries import ModelEntry
from routing.formats.caller import CallerFormat
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.tools import is_search
from routing.formats.server_tools import WEB_SEARCH
from routing.plugins.texts import with_more_tools
from routing.tools.registry import list_missing, parameters_of

# What the tool of the messages format calls otherwise.
_RENAMED: Final = {"blocked_domains": "excluded_domains"}
# Choices of the messages format that name no tool.
_IN_A_WORD: Final[Mapping[Any, str]] = {"none": "none", "auto": "auto", "any": "required"}
_IN_BOTH: Final = (
    *("max_uses", "max_results", "max_total_results", "max_characters", "search_context_size"),
    *("user_location", "allowed_domains", "excluded_domains", "engine", "mode"),
)


def searching_here(chat: ChatRequest) -> ChatRequest:
    """The request with the gateway's search where it named its provider's; itself where it named
    none, other tools of the provider too, or where nothing searches here."""
    if not chat.native_tools or not all(map(_is_search, chat.native_tools)):
        return chat
    given = _tools(chat)
    named = next((tool for tool in given if _is_search(tool.get("type"))), None)
    if named is None:
        return chat
    tool = {"type": WEB_SEARCH, "parameters": _parameters(named)}
    if list_missing([tool]):
        return chat
    if not _allowed(chat):
        return replace(chat, native_tools=())
    searching = with_more_tools(chat, [tool])
    chosen = _chosen(chat)
    return replace(
        searching,
        body=searching.body | chosen,
        supplied_parameters=frozenset((*searching.supplied_parameters, *chosen)),
        native_tools=(),
        original=_without_searches(chat),
    )


def search_beside_own_tools(chat: ChatRequest) -> ChatRequest:
    """The same where the gateway's own tools are named too: one loop cannot have two authors."""
    return searching_here(chat) if chat.server_tools else chat


def search_without_provider(
    chat: ChatRequest, models: Sequence[ModelEntry], format: CallerFormat
) -> ChatRequest:
    """The same where none of the models has an endpoint that speaks the caller's format."""
    if not chat.native_tools or not models:
        return chat
    kinds = frozenset({format.wire})
    if any(each.serves(kinds) for model in models for each in model.endpoints):
        return chat
    return searching_here(chat)


def _is_search(kind: Any) -> bool:
    return isinstance(kind, str) and is_search(kind)


def _tools(chat: ChatRequest) -> list[JsonObject]:
    tools: list[JsonObject] = (chat.original or {}).get("tools") or []
    return tools


def _parameters(tool: Mapping[str, Any]) -> JsonObject:
    """The settings in the gateway's words; `filters` is where OpenAI keeps the domains."""
    given = {**tool, **parameters_of(tool)}
    filters = given.get("filters")
    if isinstance(filters, dict) and _are_texts(filters.get("allowed_domains")):
        given.setdefault("allowed_domains", filters["allowed_domains"])
    given |= {ours: given[theirs] for theirs, ours in _RENAMED.items() if theirs in given}
    return {name: given[name] for name in _IN_BOTH if given.get(name) is not None}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _choice(chat: ChatRequest) -> Any:
    return (chat.original or {}).get("tool_choice")


def _allowed(chat: ChatRequest) -> bool:
    """Whether the model may search: a list of allowed tools may leave the search out."""
    choice = _choice(chat)
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return True
    return any(_is_search(tool.get("type")) for tool in choice["tools"])


def _chosen(chat: ChatRequest) -> JsonObject:
    """What the caller said of calls, where the translation lost it with the provider's tool."""
    choice = _choice(chat)
    said: JsonObject = {}
    if choice is not None and "tool_choice" not in chat.body:
        chosen = _chosen_search(choice) if isinstance(choice, dict) else choice
        said |= {"tool_choice": chosen} if chosen else {}
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use"):
        said["parallel_tool_calls"] = False
    return said


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
    rest = [tool for tool in _tools(chat) if not _is_search(tool.get("type"))]
    return {**chat.original, "tools": rest}
