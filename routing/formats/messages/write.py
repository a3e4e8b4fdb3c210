"""Writes messages answers: the body with its usage and stop reason, and error bodies."""

from typing import Any, Final

import pydantic_core

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.ids import message_id, tool_use_id
from routing.formats.caller import AnswerIdentity, CompleteAnswer, Ending, ToolActivity
from routing.formats.chat.answer import read_text
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.pieces import (
    DIRECT,
    build_tool_result,
    build_tool_use,
    count_fetches,
    is_plain_text,
    read_call_fragments,
    read_citations,
    read_reasoning_details,
)
from routing.formats.messages.thinking import build_thinking_blocks

WIRE: Final = "anthropic"
_NO_TEXT: Final[JsonObject] = {"type": "text", "text": "", "citations": []}
_ABSENT: Final[JsonObject] = {
    "stop_reason": None,
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
}
# What a provider may leave out of a block, by the block's type.
_BLOCK_DEFAULTS: Final[dict[str, JsonObject]] = {
    "text": {"citations": []},
    "tool_use": {"caller": DIRECT, "input": {}},
}


class BrokenAnswer(GatewayError):
    """The upstream broke off after a part of its answer, for which the format has no place."""

    status, error_type = 502, "provider_unavailable"
    message = "Provider returned error"


def build_answer(answer: CompleteAnswer) -> JsonObject:
    """The body. Raises `BrokenAnswer` where the answer is a part of one."""
    ending = answer.ending
    if ending.failure is not None:
        metadata = ending.failure.get("metadata")
        error = BrokenAnswer(ending.failure.get("message"), metadata=metadata)
        error.error_type = (metadata or {}).get("error_type", error.error_type)
        raise error
    native = ending.native
    if native is not None and native.kind == WIRE:
        body = _build_native_answer(native.value, answer.served, ending)
    else:
        silent = is_reasoning_hidden(answer.request)
        blocks: list[JsonObject] = []
        fetches = 0
        for piece in answer.pieces or [answer.message]:
            if isinstance(piece, ToolActivity):
                result = build_tool_result(piece)
                blocks += [build_tool_use(piece)[0], *([result] if result is not None else [])]
                fetches += count_fetches(piece)
            else:
                blocks += build_message_blocks(piece, silent=silent)
        body = {
            **build_envelope(answer.served),
            "content": _attach_trailing_citations(blocks),
            **build_stop_fields(ending.finish_reason, ending.native_finish, ending.stop_sequence),
            "usage": add_fetches(build_usage(ending.usage, ending.service_tier), fetches),
        }
    if ending.router_metadata is not None:
        body["router_metadata"] = ending.router_metadata
    return body


def _attach_trailing_citations(blocks: list[JsonObject]) -> list[JsonObject]:
    """What is cited at an answer's end belongs to its last text, as in a stream."""
    if len(blocks) < 2 or blocks[-1] | {"citations": []} != _NO_TEXT:
        return blocks
    *others, text, citing = blocks
    if text["type"] != "text":
        return blocks
    return [*others, {**text, "citations": text["citations"] + citing["citations"]}]


def build_envelope(served: AnswerIdentity) -> JsonObject:
    """What every message says of itself before it has said anything."""
    return {
        "id": message_id(),
        "type": "message",
        "role": "assistant",
        "model": served.model,
        "provider": served.provider,
        "content": [],
        **_ABSENT,
    }


def add_gateway_fields(message: JsonObject, served: AnswerIdentity) -> JsonObject:
    """A provider's own message with the gateway's fields; its id stays where it has one."""
    identity = message.get("id")
    gateways = build_envelope(served)
    if isinstance(identity, str) and identity:
        gateways["id"] = identity
    missing = {name: item for name, item in gateways.items() if name not in message}
    overridden = {name: gateways[name] for name in ("id", "type", "role", "model", "provider")}
    return {**message, **missing, **overridden}


def is_reasoning_hidden(request: ChatRequest) -> bool:
    """Whether the caller wants reasoning to be kept without showing its words."""
    thinking = (request.original or {}).get("thinking") or {}
    return bool(thinking.get("display") == "omitted")


def build_message_blocks(message: JsonObject, *, silent: bool) -> list[JsonObject]:
    """The content of a chat-shaped message: reasoning, text, tool calls."""
    blocks = build_thinking_blocks(read_reasoning_details(message), silent=silent)
    text = read_text(message.get("content")) + read_text(message.get("refusal"))
    citations = list(read_citations(message.get("annotations")))
    if text or citations:
        blocks.append({"type": "text", "text": text, "citations": citations})
    for call in read_call_fragments(message.get("tool_calls")):
        blocks.append(
            {
                "type": "tool_use",
                "id": call.id or tool_use_id(),
                "name": call.name,
                "input": _parse_arguments(call.arguments),
                "caller": DIRECT,
            }
        )
    return blocks


def _parse_arguments(arguments: str) -> Any:
    """What is cut off in its middle is an empty object."""
    if is_plain_text(arguments):
        return {"input": arguments}
    try:
        return pydantic_core.from_json(arguments, allow_inf_nan=False)
    except ValueError:
        return {}


def _build_native_answer(message: JsonObject, served: AnswerIdentity, ending: Ending) -> JsonObject:
    body = add_gateway_fields(message, served)
    content = body["content"] if isinstance(body["content"], list) else []
    reason = body["stop_reason"]
    # Some end their turn with calls, which callers look for behind `tool_use` alone.
    if reason is None or (reason == "end_turn" and any(map(is_caller_tool_use, content))):
        body |= build_stop_fields(ending.finish_reason, ending.native_finish, ending.stop_sequence)
    body["content"] = filled = content.copy()
    for index, block in enumerate(content):
        if isinstance(block, dict):
            defaults = _BLOCK_DEFAULTS.get(str(block.get("type")), {})
            missing = {name: item for name, item in defaults.items() if block.get(name) is None}
            filled[index] = {**block, **missing}
    native = body.get("usage")
    body["usage"] = build_usage(
        ending.usage, ending.service_tier, native if isinstance(native, dict) else None
    )
    return body


_TIERS: Final = {"default": "standard", "standard": "standard", "priority": "priority"}
_COSTS: Final = ("cost", "cost_details", "is_byok")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
NO_USAGE: Final[JsonObject] = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": None,
    "cache_read_input_tokens": None,
    "cache_creation": None,
    "inference_geo": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": None,
}
_NO_SERVER_TOOLS: Final = {"web_search_requests": 0, "web_fetch_requests": 0}
_STOPS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_REFUSED: Final = {"type": "refusal", "category": None, "explanation": None}


def build_usage(
    usage: JsonObject, service_tier: str | None, native: JsonObject | None = None
) -> JsonObject:
    """The whole usage object from a chat-shaped report. `input_tokens` leaves out what was read
    from a cache or written to one.

    Where the upstream speaks messages, `native` is its own usage. Every key it has is kept, except
    that its counts give way where they are not the ones that were charged.
    """
    counted = _count_tokens(usage)
    result = {**NO_USAGE, **counted, "service_tier": _TIERS.get(service_tier or "")}
    if native is not None:
        result |= {name: value for name, value in native.items() if value is not None}
        if _sum_tokens(result) != (usage["prompt_tokens"], usage["completion_tokens"]):
            result |= {name: counted[name] for name in _COUNTS}
        if isinstance(tools := result["server_tool_use"], dict):
            result["server_tool_use"] = {**_NO_SERVER_TOOLS, **tools}
    return result | {name: usage[name] for name in _COSTS if name in usage}


def add_fetches(usage: JsonObject, fetches: int) -> JsonObject:
    """The usage object of an answer for which the gateway fetched pages."""
    server_tools = usage["server_tool_use"]
    if not fetches or server_tools is None:
        return usage
    return usage | {"server_tool_use": {**server_tools, "web_fetch_requests": fetches}}


def build_stop_fields(
    finish_reason: str, native_finish: str | None, stop_sequence: str | None
) -> JsonObject:
    """`stop_reason`, `stop_sequence` and `stop_details` of an answer from another format."""
    if finish_reason == "stop" and stop_sequence is not None:
        return {
            "stop_reason": "stop_sequence",
            "stop_sequence": stop_sequence,
            "stop_details": None,
        }
    reason = _STOPS.get(finish_reason, "end_turn")
    if native_finish == "model_context_window_exceeded":
        reason = native_finish
    details = dict(_REFUSED) if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def is_caller_tool_use(block: object) -> bool:
    """Whether the model calls a tool of the caller's. Code that the provider runs calls tools too,
    and goes on within the answer."""
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return False
    caller = block.get("caller")
    return not isinstance(caller, dict) or caller.get("type") == "direct"


def _count_tokens(usage: JsonObject) -> JsonObject:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    cache_read = prompt.get("cached_tokens") or 0
    cache_written = prompt.get("cache_write_tokens") or 0
    thinking = completion.get("reasoning_tokens")
    server_tools = usage.get("server_tool_use_details") or {}
    searches = server_tools.get("web_search_requests") or 0
    fresh = usage["prompt_tokens"] - cache_read - cache_written
    if fresh < 0:
        # The same tokens were written and read.
        fresh = max(0, fresh + cache_written)
    return {
        "input_tokens": fresh,
        "output_tokens": usage["completion_tokens"],
        "cache_creation_input_tokens": cache_written,
        "cache_read_input_tokens": cache_read,
        "output_tokens_details": None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": (
            _NO_SERVER_TOOLS | {"web_search_requests": searches} if server_tools else None
        ),
    }


def _sum_tokens(usage: JsonObject) -> tuple[int, int] | None:
    counts = [usage[name] or 0 for name in _COUNTS]
    if not all(type(count) is int for count in counts):
        return None
    fresh, output, cache_written, cache_read = counts
    return fresh + cache_written + cache_read, output


_ERROR_TYPES: Final = {
    "authentication": "authentication_error",
    "payment_required": "billing_error",
    "permission_denied": "permission_error",
    "not_found": "not_found_error",
    "image_not_found": "not_found_error",
    "rate_limit_exceeded": "rate_limit_error",
    "server": "api_error",
    "unmapped": "api_error",
    "provider_unavailable": "api_error",
    "provider_overloaded": "overloaded_error",
    "timeout": "timeout_error",
}
_MODERATION: Final = "content_policy_violation"


def build_error_body(
    error: GatewayError, *, generation_id: str | None, router_metadata: object = None
) -> JsonObject:
    """The whole body; `generation_id` is None before routing."""
    body: JsonObject = {
        "type": "error",
        "error": build_error(error.body()),
        "request_id": generation_id,
    }
    if router_metadata is not None:
        body["router_metadata"] = router_metadata
    return body


def build_error(error: JsonObject) -> JsonObject:
    """The `error` of bodies and of events, from code, message and metadata with `error_type`."""
    metadata = error.get("metadata") or {}
    error_type = metadata.get("error_type", "unmapped")
    code = error.get("code")
    if error_type == "unprocessable":
        error_type, metadata = "invalid_request", {**metadata, "error_type": "invalid_request"}
    # What the gateway itself blocked names no provider.
    is_gateways = error_type == _MODERATION and "provider_name" not in metadata
    kind = "permission_error" if is_gateways else _ERROR_TYPES.get(error_type)
    return {
        "type": kind or "invalid_request_error",
        "message": error.get("message"),
        "error_type": error_type,
        "code": 400 if code == 422 else code,
        "metadata": metadata,
    }
