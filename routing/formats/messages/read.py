"""Reads a messages body: checks it and translates it into a chat request, messages and all."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from pydantic import ValidationError

from gateway.http.jsonio import JsonObject, dumps
from gateway.http.validation import ISSUES_MAX, Issue, list_issues
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    build_translated_request,
    find_header_issues,
)
from routing.formats.chat.schema import ChatBody
from routing.formats.messages.pieces import is_gateway_tool_block
from routing.formats.messages.schema import (
    MessagesBody,
    check_messages,
    find_agent_issues,
    find_messages_issues,
)
from routing.formats.messages.thinking import is_gateway_thinking, read_redacted, read_thinking
from routing.formats.messages.tools import is_search
from routing.formats.open_tools import move_tool_settings
from routing.formats.server_tools import SERVER_PREFIX

_REASONING_READERS: Final = {"thinking": read_thinking, "redacted_thinking": read_redacted}
# What `build_parts` knows.
PART_BLOCKS: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_GATEWAY_RESULTS: Final = frozenset({"router_shell_tool_result", "router_bash_tool_result"})


def build_chat_messages(body: JsonObject) -> list[JsonObject]:
    """The chat messages of a checked body. Blocks that only a message-style upstream understands
    (what server tools said, compactions) are left out."""
    messages: list[JsonObject] = []
    if system := body.get("system"):
        content = system
        if type(system) is not str:
            blocks = (block for block in system if block["type"] in PART_BLOCKS)
            content = simplify_content(build_parts(blocks))
        messages.append({"role": "system", "content": content})
    for message in body["messages"]:
        messages += _translate_message(message)
    return messages or [{"role": "user", "content": ""}]


def find_orphan_issues(messages: list[JsonObject]) -> Iterator[Issue]:
    """The tool results that answer no tool use before them, by the caller's own paths."""
    called: set[str] = set()
    for index, message in enumerate(messages):
        blocks = list(enumerate(_content_blocks(message)))
        called.update(block["id"] for _, block in blocks if block["type"] == "tool_use")
        for position, block in blocks:
            if block["type"] == "tool_result" and block["tool_use_id"] not in called:
                path = f"messages.{index}.content.{position}.tool_use_id"
                yield Issue(path, "Invalid input: matches no tool_use of an earlier message")


def remove_gateway_blocks(body: JsonObject) -> JsonObject:
    """The body without blocks that the gateway wrote and no provider would take: the very same
    object when there are none."""
    messages = []
    for message in body["messages"]:
        blocks = _content_blocks(message)
        gateway_call_ids = {
            block["tool_use_id"] for block in blocks if block["type"] in _GATEWAY_RESULTS
        }
        others = [block for block in blocks if not _is_own_block(block, gateway_call_ids)]
        messages.append(message if len(others) == len(blocks) else {**message, "content": others})
    if all(new is old for new, old in zip(messages, body["messages"], strict=True)):
        return body
    # A message that held nothing else says nothing.
    return {**body, "messages": [message for message in messages if message["content"]]}


def _is_own_block(block: JsonObject, gateway_call_ids: set[str]) -> bool:
    kind = block["type"]
    if is_gateway_tool_block(block):
        return True
    if kind == "server_tool_use":
        return block["id"] in gateway_call_ids
    return kind in _GATEWAY_RESULTS or is_gateway_thinking(block)


def _content_blocks(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    return content if type(content) is list else []


def _translate_message(message: JsonObject) -> list[JsonObject]:
    role, content = message["role"], message["content"]
    if type(content) is str:
        return [{"role": role, "content": content}]
    details: list[JsonObject] = []
    calls: list[JsonObject] = []
    results: list[JsonObject] = []
    for block in content:
        kind = block["type"]
        if kind in _REASONING_READERS:
            details.append(_REASONING_READERS[kind](block, len(details)))
        elif kind == "tool_use":
            value = {} if block.get("input") is None else block["input"]
            function = {"name": block["name"], "arguments": dumps(value).decode()}
            calls.append({"id": block["id"], "type": "function", "function": function})
        elif kind == "tool_result":
            results.append(_build_tool_message(block))
    lists = {"reasoning_details": details, "tool_calls": calls}
    assistant_fields = {name: items for name, items in lists.items() if items}
    parts = build_parts(block for block in content if block["type"] in PART_BLOCKS)
    messages = [{"role": role, "content": simplify_content(parts)}] if parts else []
    if role != "assistant":
        answer = {"role": "assistant", "content": None, **assistant_fields}
        return [*([answer] if assistant_fields else []), *results, *messages]
    if assistant_fields or not content:
        simplified = simplify_content(parts) if parts else None
        messages = [{"role": role, "content": simplified, **assistant_fields}]
    return messages + results


def _build_tool_message(block: JsonObject) -> JsonObject:
    content = block.get("content", "")
    parts = [{"type": "text", "text": content}] if type(content) is str else build_parts(content)
    message = {
        "role": "tool",
        "tool_call_id": block["tool_use_id"],
        "content": simplify_content(add_cache_mark(parts, block)),
    }
    if "is_error" in block:
        message["is_error"] = block["is_error"]
    return message


def build_parts(blocks: Iterable[JsonObject]) -> list[JsonObject]:
    """The chat parts of text, image, document, search result and tool reference blocks.

    A block's cache mark goes to the last of its parts.
    """
    parts: list[JsonObject] = []
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            block_parts = [_text_part(block["text"])]
        elif kind == "image":
            source = block["source"]
            url = source["url"] if source["type"] == "url" else _data_url(source)
            block_parts = [{"type": "image_url", "image_url": {"url": url}}]
        elif kind == "document":
            block_parts = _build_document_parts(block)
        elif kind == "search_result":
            texts = [inner["text"] for inner in block["content"]]
            block_parts = [_text_part("\n".join([block["title"], block["source"], "", *texts]))]
        else:
            block_parts = [_text_part(block["tool_name"])]
        parts += add_cache_mark(block_parts, block)
    return parts


def add_cache_mark(parts: list[JsonObject], block: JsonObject) -> list[JsonObject]:
    """The parts with the block's cache mark on the last one."""
    mark = block.get("cache_control")
    if mark is None or not parts:
        return parts
    return [*parts[:-1], {**parts[-1], "cache_control": mark}]


def simplify_content(parts: list[JsonObject]) -> str | list[JsonObject]:
    """The parts as chat content: a lone text without a mark is plain text, and so is nothing."""
    if not parts:
        return ""
    first = parts[0]
    if len(parts) == 1 and first["type"] == "text" and "cache_control" not in first:
        text: str = first["text"]
        return text
    return parts


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _data_url(source: JsonObject) -> str:
    return f"data:{source['media_type']};base64,{source['data']}"


def _build_document_parts(block: JsonObject) -> list[JsonObject]:
    source = block["source"]
    kind = source["type"]
    context = [_text_part(block["context"])] if block.get("context") else []
    if kind == "content" and type(source["content"]) is list:
        title = [_text_part(block["title"])] if block.get("title") else []
        return title + context + build_parts(source["content"])
    if kind == "file":
        file = {"file_id": source["file_id"]}
    elif kind == "url":
        file = {"file_data": source["url"]}
    elif kind == "base64":
        file = {"file_data": _data_url(source)}
    else:
        text = source["data"] if kind == "text" else source["content"]
        encoded = base64.b64encode(text.encode()).decode()
        file = {"file_data": f"data:text/plain;base64,{encoded}"}
    if block.get("title"):
        file["filename"] = block["title"]
    return [*context, {"type": "file", "file": file}]


# The same in both formats. The numbers come from the checked body, where 5.0 is 5.
_SAME_FIELDS: Final = (
    "model",
    "stream",
    "cache_control",
    "stop_server_tools_when",
    "plugins",
    "route",
    "preset",
    "session_id",
    "trace",
)
_CHECKED_FIELDS: Final = ("temperature", "top_p", "top_k", "provider")
# Chat parameters without a place in a messages body. What a caller adds is forwarded as given where
# an endpoint lists it, like any field that the gateway does not know.
_EXTRA_FIELDS: Final = frozenset(
    {
        "frequency_penalty",
        "image_config",
        "logit_bias",
        "min_p",
        "presence_penalty",
        "prompt_cache_key",
        "repetition_penalty",
        "top_a",
        "verbosity",
    }
)
_NOT_FORWARDED: Final = (
    frozenset(ChatBody.__annotations__) | frozenset(MessagesBody.__annotations__)
) - _EXTRA_FIELDS
# What the answer would be without: a place for files, and tools.
_NATIVE_FIELDS: Final = ("container", "mcp_servers")
_TIERS: Final = {"standard_only": "default"}


def parse_messages(
    body: JsonObject,
    *,
    session_header: str | None,
    models_max: int = 3,
    beside: JsonObject | None = None,
) -> ChatRequest:
    """Check a parsed messages body and the `x-session-id` header. Raises `ChatInvalid`.

    `beside` are checked fields in the words of chat that messages have none for.
    """
    body = move_tool_settings(body)
    try:
        body, checked = check_messages(body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error) + find_header_issues(session_header)) from None
    issues = find_messages_issues(checked, models_max) + find_agent_issues(body)
    issues += find_header_issues(session_header)
    if issues:
        raise ChatInvalid(issues)
    orphans = list(find_orphan_issues(body["messages"]))
    if orphans:
        raise ChatInvalid(orphans[:ISSUES_MAX], "invalid_prompt")
    kinds = [tool.get("type") or "" for tool in body.get("tools", ())]
    request = build_translated_request(
        _build_chat_body(body, checked) | (beside or {}),
        session_header=session_header,
        format="messages",
        original=remove_gateway_blocks(body),
        native_tools=tuple(dict.fromkeys(filter(is_search, kinds))),
    )
    request.native_fields = frozenset(name for name in _NATIVE_FIELDS if body.get(name))
    return request


def _build_chat_body(body: JsonObject, checked: MessagesBody) -> JsonObject:
    fields = cast(JsonObject, checked)
    chat = {name: value for name, value in body.items() if name not in _NOT_FORWARDED}
    chat |= {name: body[name] for name in _SAME_FIELDS if name in body}
    chat |= {name: fields[name] for name in _CHECKED_FIELDS if name in fields}
    chat |= {"messages": build_chat_messages(body)}
    if "max_tokens" in fields:
        chat["max_completion_tokens"] = fields["max_tokens"]
    if type(body.get("seed")) is int:
        chat["seed"] = body["seed"]
    if stops := body.get("stop_sequences"):
        chat["stop"] = stops
    fallbacks = [entry["model"] for entry in body.get("fallbacks") or ()]
    if models := (fallbacks or body.get("models", [])):
        chat["models"] = models
    if user := body.get("user") or body.get("metadata", {}).get("user_id"):
        chat["user"] = user
    tier = body.get("service_tier")
    if tier in (None, "auto") and body.get("speed") == "fast":
        # A named tier wins over the speed, which is the coarser word.
        tier = "priority"
    if tier:
        chat["service_tier"] = _TIERS.get(tier, tier)
    config: Any = body.get("output_config", {})
    output_fields: JsonObject = {}
    if reasoning := read_reasoning(checked.get("thinking"), config.get("effort")):
        output_fields["reasoning"] = reasoning
    if form := config.get("format"):
        schema = {"name": "response", "schema": form["schema"], "strict": True}
        output_fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat | _read_tools(body) | output_fields


def _read_tools(body: JsonObject) -> JsonObject:
    """Custom tools as functions, the gateway's own as they are; what a provider runs stays out."""
    tools: list[JsonObject] = []
    for tool in body.get("tools", ()):
        kind = tool.get("type") or "custom"
        if kind.startswith(SERVER_PREFIX):
            tools.append(tool)
        elif kind == "custom":
            function = {"name": tool["name"], "parameters": tool["input_schema"]}
            function |= {name: tool[name] for name in ("description", "strict") if name in tool}
            chat: JsonObject = {"type": "function", "function": function}
            if tool.get("cache_control") is not None:
                chat["cache_control"] = tool["cache_control"]
            if tool.get("defer_loading"):
                chat["defer_loading"] = True
            tools.append(chat)
    if not tools:
        return {}
    fields: JsonObject = {"tools": tools}
    choice = body.get("tool_choice")
    if choice is not None and (chat_choice := _read_tool_choice(choice, tools)) is not None:
        fields["tool_choice"] = chat_choice
    if choice is not None and choice.get("disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = False
    return fields


def _read_tool_choice(choice: JsonObject, tools: list[JsonObject]) -> Any:
    """None where the choice names a tool that only its provider runs."""
    kind = choice["type"]
    if kind != "tool":
        return "required" if kind == "any" else kind
    name = choice["name"]
    for tool in tools:
        if tool["type"] == "function" and tool["function"]["name"] == name:
            return {"type": "function", "function": {"name": name}}
        if tool["type"] == SERVER_PREFIX + name:
            return {"type": tool["type"]}
    return None


def read_reasoning(thinking: Any, effort: str | None) -> JsonObject:
    reasoning: JsonObject = {"effort": effort} if effort else {}
    if thinking is None:
        return reasoning
    if thinking["type"] == "enabled":
        return {**reasoning, "max_tokens": thinking["budget_tokens"]}
    return {**reasoning, "enabled": thinking["type"] != "disabled"}
