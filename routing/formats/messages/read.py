"""Reads a messages body: checks it and translates it into a chat request."""

from typing import Any, Final, cast

from pydantic import ValidationError

from gateway.http.jsonio import JsonObject
from gateway.http.validation import ISSUES_MAX, list_issues
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    build_translated_request,
    find_header_issues,
)
from routing.formats.chat.schema import ChatBody
from routing.formats.messages.conversation import (
    build_chat_messages,
    find_orphan_issues,
    remove_gateway_blocks,
)
from routing.formats.messages.schema import (
    MessagesBody,
    check_messages,
    find_agent_issues,
    find_messages_issues,
)
from routing.formats.messages.tools import is_search
from routing.formats.open_tools import move_tool_settings
from routing.formats.server_tools import SERVER_PREFIX

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
# Chat parameters without a place in a messages body: what a caller adds is forwarded as given
# where an endpoint lists it, like any field that the gateway does not know.
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
