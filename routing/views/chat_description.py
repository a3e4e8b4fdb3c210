"""How /chat/completions is described in the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import TypeAdapter

from gateway.openapi.components import REF_TEMPLATE, Component
from gateway.openapi.errors import error_responses
from routing.formats.chat.schema import ChatBody
from routing.formats.fields import RequestJsonSchema
from routing.views.chat_answer_schemas import CHAT_CHUNK, CHAT_COMPLETION
from routing.views.chat_parameters import DEPRECATED, MEANINGS

F = TypeVar("F", bound=Callable[..., object])

ERROR_STATUSES: Final = (
    *(400, 401, 402, 403, 404, 408, 413, 422, 429),
    *(500, 502, 503, 524, 529),
)
_AFTER_ROUTING: Final = [200, 400, 402, 403, 404, 408, 413, 422, 429, 502, 503, 524, 529]
_STREAM: Final = (
    "With `stream: true` server-sent events: one chunk per `data:` line, comment lines "
    "(`: ROUTER PROCESSING`) while nothing comes, then `data: [DONE]`. The chunk before that "
    "carries `usage`. A failure after the first content is a last chunk with `error`."
)


class _Schema(RequestJsonSchema):
    """Without the titles pydantic makes of field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _request() -> Component:
    schema: dict[str, Any] = TypeAdapter(ChatBody).json_schema(
        schema_generator=_Schema, ref_template=REF_TEMPLATE
    )
    definitions = schema.pop("$defs")
    for name, told in schema["properties"].items():
        told["description"] = MEANINGS[name]
        if name in DEPRECATED:
            told["deprecated"] = True
    schema["title"] = "ChatRequest"
    schema["description"] = "Unknown keys are ignored; null stands for absent where it is allowed."
    return Component("ChatRequest", schema, definitions)


def _header(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description, **more)


_HEADERS: Final = [
    _header("X-Router-Metadata", "Adds `router_metadata` to the answer.", enum=["enabled"]),
    _header("x-session-id", "Names the conversation, at most 256 characters."),
    _header("HTTP-Referer", "Address of the calling app."),
    _header("X-Router-Title", "Display name of the calling app."),
    _header("X-Router-Categories", "Comma list of at most two app categories."),
    _header(
        "X-Generation-Id",
        "Id of the generation, on every answer that an upstream was asked for.",
        response=_AFTER_ROUTING,
    ),
    _header("Retry-After", "Seconds to wait.", response=[402, 429, 503, 529]),
]
_EXAMPLE: Final = OpenApiExample(
    "A question",
    value={
        "model": "simulated/small",
        "messages": [{"role": "user", "content": "Say hello."}],
    },
    request_only=True,
)


def describe_chat(view: F) -> F:
    """Describe the operation: the schema its bodies are checked by, its answers and refusals."""
    described: F = extend_schema(
        operation_id="createChatCompletion",
        summary="Answer a conversation",
        description=(
            "Picks an endpoint for the model, falls back to others when it fails, and charges "
            "the account what `usage.cost` says."
        ),
        tags=["Chat"],
        parameters=_HEADERS,
        request={"application/json": _request()},
        examples=[_EXAMPLE],
        responses={
            (200, "application/json"): OpenApiResponse(CHAT_COMPLETION, description=_STREAM),
            (200, "text/event-stream"): OpenApiResponse(CHAT_CHUNK, description=_STREAM),
            **error_responses(*ERROR_STATUSES),
        },
    )(view)
    return described
