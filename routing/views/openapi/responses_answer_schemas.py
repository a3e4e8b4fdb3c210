"""A response and its stream as the OpenAPI document tells them (inference reference 5.4, 5.5)."""

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
from gateway.openapi.errors import ERROR_TYPES
from routing.views.openapi.chat_answer_schemas import ROUTER_METADATA

_FREE: Final = {"type": "object", "additionalProperties": True}
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
_MAYBE_FREE: Final = nullable(_FREE)
_MAYBE_NUMBER: Final = nullable({"type": "number"})
_ANY: Final[dict[str, Any]] = {}
_ITEM: Final = Component(
    "OutputItem",
    obj(
        {
            "id": TEXT,
            "type": TEXT,
            "status": TEXT,
            "role": words("assistant"),
            "content": array(_FREE),
            "summary": array(_FREE),
            "encrypted_content": _MAYBE_TEXT,
            "call_id": TEXT,
            "name": TEXT,
            "arguments": described(TEXT, "JSON, as the model wrote it."),
        },
        optional=(
            *("id", "status", "role", "content", "summary", "encrypted_content", "call_id"),
            *("name", "arguments"),
        ),
        description="`message`, `reasoning`, `function_call`, or an item that only upstreams of "
        "this format make, as they made it.",
        additionalProperties=True,
    ),
)
_COSTS: Final = obj(
    {
        "upstream_inference_cost": nullable(USD),
        "upstream_inference_input_cost": USD,
        "upstream_inference_output_cost": USD,
    }
)
_USAGE: Final = Component(
    "ResponseUsage",
    obj(
        {
            "input_tokens": WHOLE,
            "input_tokens_details": obj(
                {"cached_tokens": WHOLE, "cache_write_tokens": WHOLE},
                optional=("cache_write_tokens",),
                additionalProperties=True,
            ),
            "output_tokens": WHOLE,
            "output_tokens_details": obj({"reasoning_tokens": WHOLE}, additionalProperties=True),
            "total_tokens": WHOLE,
            "cost": described(USD, "USD charged to the account, exactly."),
            "cost_details": _COSTS,
            "is_byok": FLAG,
        },
        optional=("cost", "cost_details", "is_byok"),
        additionalProperties=True,
    ),
)
_ALWAYS: Final[dict[str, Any]] = {
    "id": TEXT,
    "object": words("response"),
    "created_at": described(WHOLE, "Unix seconds."),
    "completed_at": _MAYBE_WHOLE,
    "status": words("completed", "incomplete", "in_progress", "failed", "cancelled", "queued"),
    "model": described(TEXT, "The model that served, never an alias."),
    "output": array(_ITEM),
    "error": nullable(obj({"code": TEXT, "message": TEXT}, additionalProperties=True)),
    "incomplete_details": nullable(obj({"reason": TEXT}, additionalProperties=True)),
    "instructions": _ANY,
    "metadata": _MAYBE_FREE,
    "tools": array(_FREE),
    "tool_choice": _ANY,
    "parallel_tool_calls": nullable(FLAG),
    "temperature": _MAYBE_NUMBER,
    "top_p": _MAYBE_NUMBER,
    "presence_penalty": _MAYBE_NUMBER,
    "frequency_penalty": _MAYBE_NUMBER,
}
_SOMETIMES: Final[dict[str, Any]] = {
    "output_text": described(TEXT, "All text of the answer."),
    "usage": nullable(_USAGE),
    "error_type": words(*ERROR_TYPES),
    "router_metadata": ROUTER_METADATA,
}
RESPONSE: Final = Component(
    "Response",
    obj({**_ALWAYS, **_SOMETIMES}, optional=tuple(_SOMETIMES), additionalProperties=True),
)
RESPONSE_EVENT: Final = Component(
    "ResponseEvent",
    obj(
        {
            "type": TEXT,
            "sequence_number": WHOLE,
            "response": RESPONSE,
            "output_index": WHOLE,
            "content_index": WHOLE,
            "item_id": TEXT,
            "item": _ITEM,
            "part": _FREE,
            "delta": TEXT,
        },
        optional=(
            *("response", "output_index", "content_index", "item_id", "item", "part"),
            "delta",
        ),
        description="The JSON of one `data:` line; `event:` repeats its `type`.",
        additionalProperties=True,
    ),
)
