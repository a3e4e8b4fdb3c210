"""Replacing a request's messages or adding tools, with its sizes adjusted."""

from dataclasses import replace

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest
from routing.formats.server_tools import canonical_tool


def with_messages(chat: ChatRequest, messages: list[JsonObject]) -> ChatRequest:
    """The request with these messages instead of its own. What an upstream of the caller's format
    is sent is translated from them, too."""
    before, after = read_prompt(chat.body["messages"]), read_prompt(messages)
    return replace(
        chat,
        body={**chat.body, "messages": messages},
        rewritten=True,
        text_bytes=max(0, chat.text_bytes + after.text_bytes - before.text_bytes),
        prompt_text_chars=max(0, chat.prompt_text_chars + after.text_chars - before.text_chars),
        message_count=len(messages),
        media_parts=max(0, chat.media_parts + after.media_parts - before.media_parts),
        image_parts=max(0, chat.image_parts + after.image_parts - before.image_parts),
        input_modalities=frozenset(after.modalities),
    )


def with_more_tools(chat: ChatRequest, tools: list[JsonObject]) -> ChatRequest:
    """The request with these server tools behind its own, those that it has already left out."""
    own: list[JsonObject] = chat.body.get("tools") or []
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
