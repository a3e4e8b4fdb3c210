"""Web search that a provider would run, run here instead (inference reference 4.4).

A caller may name the search of its own format's provider. Where no endpoint of that kind is there,
or the gateway's own tools stand beside it, the gateway's search does the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from routing.catalogue.entries import ModelEntry
from routing.formats.caller import CallerFormat
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.tools import SEARCH_PREFIX
from routing.formats.server_tools import SHORTHANDS, WEB_SEARCH
from routing.plugins.texts import with_more_tools
from routing.tools.registry import missing, parameters_of

# What the tool of the messages format calls otherwise.
_RENAMED: Final = {"blocked_domains": "excluded_domains"}
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
    if missing([tool]):
        return chat
    searching = with_more_tools(chat, [tool])
    return replace(
        searching,
        body=_choosing(searching.body, chat.original),
        native_tools=(),
        original=_without_searches(chat),
    )


def beside_own_tools(chat: ChatRequest) -> ChatRequest:
    """The same where the gateway's own tools are named too: one loop cannot have two authors."""
    return searching_here(chat) if chat.server_tools else chat


def where_no_provider_does(
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
    return isinstance(kind, str) and (kind in SHORTHANDS or kind.startswith(SEARCH_PREFIX))


def _tools(chat: ChatRequest) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = (chat.original or {}).get("tools") or []
    return tools


def _parameters(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in the gateway's words; `filters` is where OpenAI keeps the domains."""
    given = {**tool, **parameters_of(tool)}
    filters = given.get("filters")
    if isinstance(filters, dict) and _are_texts(filters.get("allowed_domains")):
        given.setdefault("allowed_domains", filters["allowed_domains"])
    given |= {ours: given[theirs] for theirs, ours in _RENAMED.items() if theirs in given}
    return {name: given[name] for name in _IN_BOTH if given.get(name) is not None}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _choosing(body: dict[str, Any], original: Mapping[str, Any] | None) -> dict[str, Any]:
    """A choice of the provider's search is one of the gateway's."""
    choice = (original or {}).get("tool_choice")
    if not isinstance(choice, dict) or "tool_choice" in body:
        return body
    if _is_search(choice.get("type")) or choice.get("name") == "web_search":
        return {**body, "tool_choice": {"type": WEB_SEARCH}}
    return body


def _without_searches(chat: ChatRequest) -> dict[str, Any] | None:
    """What `equipping` looks for tools of a provider in; responses repeat it to the caller."""
    if chat.original is None or chat.format != MESSAGES.name:
        return chat.original
    rest = [tool for tool in _tools(chat) if not _is_search(tool.get("type"))]
    return {**chat.original, "tools": rest}
