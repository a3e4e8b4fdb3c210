"""A request with more tools, and its measures."""

from dataclasses import replace
from typing import Any

from gateway.http.jsonio import dumps
from routing.formats.chat.request import ChatRequest
from routing.formats.server_tools import canonical_tool


def with_more_tools(chat: ChatRequest, tools: list[dict[str, Any]]) -> ChatRequest:
    """The request with these server tools behind its own, those that it has already left out."""
    own: list[dict[str, Any]] = chat.body.get("tools") or []
    named = {canonical_tool(tool["type"]) for tool in own}
    new = [tool for tool in tools if canonical_tool(tool["type"]) not in named]
    if not new:
        return chat
    grown = len(dumps(new))
    kinds = [*chat.server_tools, *(canonical_tool(tool["type"]) for tool in new)]
    return replace(
        chat,
        body={**chat.body, "tools": [*own, *new]},
        server_tools=list(dict.fromkeys(kinds)),
        tools_given=True,
        text_bytes=chat.text_bytes + grown,
        prompt_text_chars=chat.prompt_text_chars + grown,
    )
