"""Pieces of an answer in the terms of messages: chat-shaped deltas, and server tools that ran."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pydantic_core

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import read_text
from routing.formats.server_tools import SERVER_PREFIX, WEB_FETCH, WEB_SEARCH

DIRECT: Final = {"type": "direct"}


class CallFragment(NamedTuple):
    """A piece of a tool call. `key` tells the calls of one stream apart, where the upstream has
    such a number."""

    key: int | None
    id: str | None
    name: str
    arguments: str


def read_reasoning_details(delta: JsonObject) -> Iterator[JsonObject]:
    """The reasoning items, beginning with plain `reasoning` that no item repeats."""
    value = delta.get("reasoning_details")
    listed = value if isinstance(value, list) else []
    details = [item for item in listed if isinstance(item, dict) and _string(item.get("type"))]
    plain = read_text(delta.get("reasoning"))
    if plain and not any(map(visible_text, details)):
        yield {"type": "reasoning.text", "text": plain, "format": None}
    yield from details


def visible_text(detail: JsonObject) -> str:
    """What a reader of the item sees; empty for signatures and for what is encrypted."""
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def read_call_fragments(calls: object) -> Iterator[CallFragment]:
    """The `tool_calls` of one delta, whatever the upstream put there."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            index = call.get("index")
            yield CallFragment(
                index if type(index) is int else None,
                _string(call.get("id")) or None,
                _string(function.get("name")),
                _string(function.get("arguments")),
            )


def is_plain_text(arguments: str) -> bool:
    """Whether arguments are the text for a custom tool: they do not even begin an object."""
    text = arguments.lstrip()
    return bool(text) and text[0] != "{" and text != "null"


def read_citations(annotations: object) -> Iterator[JsonObject]:
    """The citations of web pages; other annotations have no place in messages."""
    for annotation in annotations if isinstance(annotations, list) else ():
        cited = annotation.get("url_citation") if isinstance(annotation, dict) else None
        if isinstance(cited, dict) and isinstance(cited.get("url"), str):
            yield {
                "type": "web_search_result_location",
                "cited_text": _string(cited.get("content")),
                "url": cited["url"],
                "title": _string(cited.get("title")),
                "encrypted_index": "",
            }


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


OWN_PREFIX: Final = "srvtoolu_router_"


def build_tool_use(activity: ToolActivity) -> tuple[JsonObject, str]:
    """The block of a call, and its input as JSON."""
    try:
        value = pydantic_core.from_json(activity.arguments or "{}", allow_inf_nan=False)
    except ValueError:
        value = {}
    if not isinstance(value, dict):
        value = {}
    block = {
        "type": "server_tool_use",
        "id": _block_id(activity),
        "name": activity.tool.removeprefix(SERVER_PREFIX),
        "input": value,
        "caller": DIRECT,
    }
    return block, dumps(value).decode() if value else ""


def build_tool_result(activity: ToolActivity) -> JsonObject | None:
    """The block of its result, where the format has one for the tool."""
    if activity.block_type is None:
        kind = _WEB_RESULT_TYPES.get(activity.tool)
        if kind is None:
            return None
        # A tool that was stopped, or was not run, gave no result of its own.
        error = {"type": f"{kind}_error", "error_code": "unavailable"}
        return {
            "type": kind,
            "tool_use_id": _block_id(activity),
            "content": error,
            "caller": DIRECT,
        }
    block = {
        "type": activity.block_type,
        "tool_use_id": _block_id(activity),
        "content": activity.block,
    }
    return block | ({"caller": DIRECT} if activity.block_type in _RESULTS_WITH_CALLER else {})


def count_fetches(activity: ToolActivity) -> int:
    """How many pages a call counts as in the usage."""
    return int(activity.tool == WEB_FETCH and activity.status == "completed")


_WEB_RESULT_TYPES: Final = {
    WEB_SEARCH: "web_search_tool_result",
    WEB_FETCH: "web_fetch_tool_result",
}
_RESULTS_WITH_CALLER: Final = frozenset({"web_search_tool_result", "web_fetch_tool_result"})


def is_gateway_tool_block(block: JsonObject) -> bool:
    """Whether the block is about a tool that the gateway ran."""
    kind = block["type"]
    call_id = block.get("id") if kind == "server_tool_use" else block.get("tool_use_id")
    return isinstance(call_id, str) and call_id.startswith(OWN_PREFIX)


def _block_id(activity: ToolActivity) -> str:
    """Made of the call's own id, so that both its blocks have the same."""
    plain = "".join(each for each in activity.call_id if each.isascii() and each.isalnum())
    return f"{OWN_PREFIX}{plain[-32:]}_{activity.index}"
