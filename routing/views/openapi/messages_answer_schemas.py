"""A message and its stream as the OpenAPI document tells them (inference reference 4.3, 4.7)."""

from typing import Any, Final

from gateway.openapi.components import (
    FLAG,
    TEXT,
    USD,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import MESSAGES_ERROR
from routing.views.openapi.chat_answer_schemas import COST_DETAILS, ROUTER_METADATA

_FREE: Final = {"type": "object", "additionalProperties": True}
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
_MAYBE_FREE: Final = nullable(_FREE)
STOP_REASON: Final = words(
    *("end_turn", "max_tokens", "model_context_window_exceeded", "stop_sequence", "tool_use"),
    *("pause_turn", "refusal", "compaction", None),
)
_BLOCK: Final = Component(
    "OutputBlock",
    obj(
        {
            "type": TEXT,
            "text": TEXT,
            "citations": nullable(array(_FREE)),
            "thinking": TEXT,
            "signature": TEXT,
            "data": TEXT,
            "id": TEXT,
            "name": TEXT,
            "input": described(_FREE, "Of a tool the model calls."),
        },
        optional=("text", "citations", "thinking", "signature", "data", "id", "name", "input"),
        description="`text`, `thinking`, `redacted_thinking`, `tool_use`, or a block that only "
        "message-style upstreams make, as they made it.",
        additionalProperties=True,
    ),
)
_COUNTS: Final[dict[str, Any]] = {
    "input_tokens": described(WHOLE, "Without cache reads and writes."),
    "output_tokens": WHOLE,
    "cache_creation_input_tokens": _MAYBE_WHOLE,
    "cache_read_input_tokens": _MAYBE_WHOLE,
    "cache_creation": _MAYBE_FREE,
    "inference_geo": _MAYBE_TEXT,
    "output_tokens_details": _MAYBE_FREE,
    "server_tool_use": _MAYBE_FREE,
    "service_tier": words("standard", "priority", "batch", None),
    "cost": described(USD, "USD charged to the account, exactly."),
    "cost_details": COST_DETAILS,
    "is_byok": FLAG,
}
_USAGE: Final = Component(
    "MessageUsage",
    obj(
        _COUNTS,
        optional=("cost", "cost_details", "is_byok"),
        additionalProperties=True,
    ),
)
_EARLIER_USAGE: Final = obj(_COUNTS, optional=tuple(_COUNTS), additionalProperties=True)
_ENDING: Final = {
    "stop_reason": STOP_REASON,
    "stop_sequence": _MAYBE_TEXT,
    "stop_details": _MAYBE_FREE,
    "container": _MAYBE_FREE,
}
MESSAGE: Final = Component(
    "Message",
    obj(
        {
            "id": TEXT,
            "type": words("message"),
            "role": words("assistant"),
            "model": described(TEXT, "The model that served, never an alias."),
            "content": array(_BLOCK),
            **_ENDING,
            "usage": _USAGE,
            "context_management": _MAYBE_FREE,
            "provider": described(TEXT, "Display name of the provider that served."),
            "router_metadata": ROUTER_METADATA,
        },
        optional=("context_management", "provider", "router_metadata"),
        additionalProperties=True,
    ),
)
MESSAGE_EVENT: Final = Component(
    "MessageEvent",
    obj(
        {
            "type": words(
                *("message_start", "ping", "content_block_start", "content_block_delta"),
                *("content_block_stop", "message_delta", "message_stop", "error"),
            ),
            "message": _FREE,
            "index": WHOLE,
            "content_block": _BLOCK,
            "delta": _FREE,
            "usage": _EARLIER_USAGE,
            "error": MESSAGES_ERROR.schema["properties"]["error"],
            "router_metadata": ROUTER_METADATA,
        },
        optional=(
            *("message", "index", "content_block", "delta", "usage", "error"),
            "router_metadata",
        ),
        description="The JSON of one `data:` line; `event:` repeats its `type`.",
        additionalProperties=True,
    ),
)
TOKEN_COUNT: Final = Component("TokenCount", obj({"input_tokens": WHOLE}))
