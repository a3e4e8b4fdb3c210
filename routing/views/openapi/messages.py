"""How /messages and /messages/count_tokens are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import (
    EITHER_KEY,
    FLAG,
    TEXT,
    USD,
    WHOLE,
    Component,
    add_description,
    array,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import MESSAGES_ERROR, error_responses
from routing.formats.messages.schema import MessagesBody
from routing.views.openapi.chat import CHAT_MEANINGS, COST_DETAILS, ROUTER_METADATA
from routing.views.openapi.inference import (
    ERROR_STATUSES,
    describe_inference,
    request_component,
)

_CHAT_FIELDS: Final = (
    *("model", "models", "provider", "route", "preset", "plugins", "stream", "temperature"),
    *("top_p", "top_k", "tools", "stop_server_tools_when", "cache_control", "service_tier"),
    *("session_id", "trace", "user"),
)
MESSAGES_MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in _CHAT_FIELDS},
    "messages": "The conversation so far. A final assistant message is a start to be continued.",
    "max_tokens": "Most tokens the answer may have; without it as many as the endpoint gives.",
    "system": "Instructions that stand before the conversation.",
    "fallbacks": "Models to fall back to, in order; not together with `models`.",
    "stop_sequences": "Strings that end the answer.",
    "tool_choice": "Whether a tool must, may or must not be called, or which one.",
    "thinking": "Whether the model thinks before it answers, and how long.",
    "output_config": "How much effort the answer is worth, and a JSON schema it must fit.",
    "context_management": "Edits of the context; only message-style upstreams make them.",
    "metadata": "`user_id` names the end user. Providers see a hash of it.",
    "speed": "`fast` is the priority tier.",
}


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
            "input": add_description(_FREE, "Of a tool the model calls."),
        },
        optional=("text", "citations", "thinking", "signature", "data", "id", "name", "input"),
        description="`text`, `thinking`, `redacted_thinking`, `tool_use`, or a block that only "
        "message-style upstreams make, as they made it.",
        additionalProperties=True,
    ),
)
_COUNTS: Final[JsonObject] = {
    "input_tokens": add_description(WHOLE, "Without cache reads and writes."),
    "output_tokens": WHOLE,
    "cache_creation_input_tokens": _MAYBE_WHOLE,
    "cache_read_input_tokens": _MAYBE_WHOLE,
    "cache_creation": _MAYBE_FREE,
    "inference_geo": _MAYBE_TEXT,
    "output_tokens_details": _MAYBE_FREE,
    "server_tool_use": _MAYBE_FREE,
    "service_tier": words("standard", "priority", "batch", None),
    "cost": add_description(USD, "USD charged to the account, exactly."),
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
            "model": add_description(TEXT, "The model that served, never an alias."),
            "content": array(_BLOCK),
            **_ENDING,
            "usage": _USAGE,
            "context_management": _MAYBE_FREE,
            "provider": add_description(TEXT, "Display name of the provider that served."),
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


F = TypeVar("F", bound=Callable[..., object])

# What an upstream cannot process is a 400 here.
_STATUSES: Final = tuple(status for status in ERROR_STATUSES if status != 422)
_COUNT_STATUSES: Final = (400, 401, 403, 404, 413, 500, 503)
_STREAM: Final = (
    "With `stream: true` server-sent events in the order of the message: `message_start`, `ping`, "
    "blocks, `message_delta` with `usage`, `message_stop`; `ping` comes again while there is "
    "silence. A failure after the first content is a last event `error`."
)
_REQUEST: Final = request_component("MessagesRequest", MessagesBody, MESSAGES_MEANINGS)
_QUESTION: Final = {
    "model": "simulated/small",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Say hello."}],
}

describe_messages = describe_inference(
    "Messages",
    "createMessage",
    "Answer a conversation, for message-style clients",
    "As chat completions, in the messages format. The key may stand in `x-api-key`. Tools that "
    "only message-style upstreams run are offered by these alone.",
    body=_REQUEST,
    example=_QUESTION,
    answer=MESSAGE,
    event=MESSAGE_EVENT,
    stream=_STREAM,
    statuses=_STATUSES,
    error_body=MESSAGES_ERROR,
    auth=EITHER_KEY,
)


def describe_count(view: F) -> F:
    """Describe the operation."""
    described: F = extend_schema(
        operation_id="countMessageTokens",
        summary="Count the tokens of a prompt",
        description=(
            "The count of the upstream that would be asked, where it offers one, else an estimate "
            "of four characters per token. Nothing is charged."
        ),
        tags=["Messages"],
        auth=EITHER_KEY,
        request={"application/json": _REQUEST},
        examples=[OpenApiExample("A question", value=_QUESTION, request_only=True)],
        responses={
            200: OpenApiResponse(TOKEN_COUNT, description="The tokens of the prompt."),
            **error_responses(*_COUNT_STATUSES, body=MESSAGES_ERROR),
        },
    )(view)
    return described
