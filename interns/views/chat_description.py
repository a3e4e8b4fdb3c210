"""How chats with interns are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from interns.chat.body import MODEL_CHARS_MAX, PROMPT_CHARS_MAX
from interns.runtime.questions import TOOL_CALL_ID_CHARS_MAX
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX

F = TypeVar("F", bound=Callable[..., object])
_STATUSES: Final = (400, 401, 403, 404, 408, 409, 410, 413, 415, 429, 500, 502, 503, 504)
_MEANINGS: Final = {
    400: "The body breaks the schema, or the question does not take the answer: `bad_request`.",
    401: "No key, or one that may not talk to interns.",
    403: "A regional host, the creator left, or the intern's own key.",
    404: "No such intern (`not_found`), or no such question (`interaction_unknown`).",
    408: "The request itself came too slowly: `timeout`.",
    409: "`intern_not_ready`, `busy` (with `Retry-After`), `interaction_not_pending`, "
    "`attachment_failed`.",
    410: "`run_ended`, or a paused run that said more than is kept: `attachment_failed`.",
    413: "Over 1048576 bytes: `payload_too_large`.",
    415: "`unsupported_media_type`.",
    429: "Too many turns of this user, or too many wrong keys.",
    500: "A fault of the gateway: `internal_error`.",
    502: "`intern_unreachable`, `stream_severed`, `intern_rejected`, `turn_failed`.",
    503: "No place for it now: `busy`, with `Retry-After`.",
    504: "The intern took too long: `timeout`.",
}
INTERN_ERROR: Final = Component(
    "InternChatError",
    obj(
        {
            "error": obj(
                {
                    "code": described(WHOLE, "The HTTP status."),
                    "message": TEXT,
                    "metadata": obj(
                        {
                            "reason": TEXT,
                            "retryable": FLAG,
                            "issues": array(obj({"path": TEXT, "message": TEXT})),
                        },
                        optional=("reason", "retryable", "issues"),
                        additionalProperties=True,
                    ),
                },
                optional=("metadata",),
            )
        }
    ),
)
_PART: Final = obj({"type": words("text"), "text": TEXT})
_MESSAGE: Final = obj(
    {
        "role": words("system", "developer", "user", "assistant", "tool"),
        "content": {
            "anyOf": [TEXT, array(_PART), {"type": "null"}],
            "description": f"A prompt has 1 to {PROMPT_CHARS_MAX} characters; null is an answer.",
        },
        "tool_call_id": {"type": "string", "minLength": 1, "maxLength": TOOL_CALL_ID_CHARS_MAX},
    },
    optional=("content", "tool_call_id"),
    additionalProperties=True,
)
_REQUEST: Final = Component(
    "InternChatRequest",
    obj(
        {
            "stream": {"type": "boolean", "const": True},
            "messages": {
                **array(_MESSAGE),
                "minItems": 1,
                "description": "Only the last is read: the user's is a prompt, a tool's an answer.",
            },
            "session_id": nullable(
                {"type": "string", "minLength": 1, "maxLength": SESSION_ID_CHARS_MAX}
            ),
            "approval_mode": {**words("self-drive", "manual"), "default": "self-drive"},
            "model": {
                "type": "string",
                "minLength": 1,
                "maxLength": MODEL_CHARS_MAX,
                "description": "Ignored: an intern has a model of its own.",
            },
        },
        optional=("session_id", "approval_mode", "model"),
        additionalProperties=True,
    ),
)
_USAGE: Final = obj(
    {
        "prompt_tokens": WHOLE,
        "completion_tokens": WHOLE,
        "total_tokens": WHOLE,
        "cost": {"type": "number"},
        "prompt_tokens_details": obj({"cached_tokens": WHOLE}),
    },
    optional=("cost", "prompt_tokens_details"),
)
_CALL: Final = obj(
    {
        "index": WHOLE,
        "id": TEXT,
        "type": words("function"),
        "function": obj({"name": words("router.provide_input"), "arguments": TEXT}),
    }
)
_DELTA: Final = obj(
    {
        "role": words("assistant"),
        "content": TEXT,
        "reasoning": TEXT,
        "tool_calls": array(_CALL),
    },
    optional=("role", "content", "reasoning", "tool_calls"),
)
_CHUNK: Final = Component(
    "InternChatChunk",
    obj(
        {
            "id": TEXT,
            "object": words("chat.completion.chunk"),
            "created": WHOLE,
            "model": TEXT,
            "choices": array(
                obj(
                    {
                        "index": WHOLE,
                        "delta": _DELTA,
                        "finish_reason": words("stop", "tool_calls", "error", None),
                    }
                )
            ),
            "session_id": nullable(TEXT),
            "usage": nullable(_USAGE),
            "error": {"type": "object", "additionalProperties": True},
        },
        optional=("session_id", "usage", "error"),
    ),
)
_STEERED: Final = Component("InternSteered", obj({"session_id": TEXT, "status": words("steered")}))
_STREAM: Final = (
    "One chunk per `data:` line, `: keepalive` while nothing comes, `data: [DONE]` at the end. "
    "The chunk before that has no choices, but `session_id` and `usage`. A pause is one tool call "
    "`router.provide_input` and ends the stream with `tool_calls`; the run waits."
)
_SESSION: Final = OpenApiParameter(
    "x-session-id",
    {"type": "string", "maxLength": SESSION_ID_CHARS_MAX},
    OpenApiParameter.HEADER,
    description="The session, where the body names none.",
)
_EXAMPLE: Final = OpenApiExample(
    "A prompt",
    value={"stream": True, "messages": [{"role": "user", "content": "What is new today?"}]},
    request_only=True,
)


def _refusals() -> dict[int, Any]:
    return {
        status: OpenApiResponse(INTERN_ERROR, description=_MEANINGS[status]) for status in _STATUSES
    }


def completion(view: F) -> F:
    """Describe POST /interns/{internId}/chat/completions."""
    told: F = extend_schema(
        operation_id="createInternChatCompletion",
        summary="Talk to an intern",
        description=(
            "Begins a turn, goes on with one that asked something, or says more to one that is "
            "running. One turn at a time; leaving a stream cancels its run."
        ),
        tags=["Interns"],
        parameters=[_SESSION],
        request={"application/json": _REQUEST},
        examples=[_EXAMPLE],
        responses={
            (200, "text/event-stream"): OpenApiResponse(_CHUNK, description=_STREAM),
            202: OpenApiResponse(_STEERED, description="The text went into the running turn."),
            **_refusals(),
        },
    )(view)
    return told
