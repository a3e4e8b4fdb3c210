"""How /chat/completions is described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.openapi.errors import error_responses
from routing.formats.chat.schema import ChatBody
from routing.views.openapi.chat_answer_schemas import CHAT_CHUNK, CHAT_COMPLETION
from routing.views.openapi.chat_parameters import DEPRECATED, MEANINGS
from routing.views.openapi.inference_description import (
    CACHE_HEADERS,
    ERROR_STATUSES,
    HEADERS,
    request_component,
)

F = TypeVar("F", bound=Callable[..., object])

_STREAM: Final = (
    "With `stream: true` server-sent events: one chunk per `data:` line, comment lines "
    "(`: ROUTER PROCESSING`) while nothing comes, then `data: [DONE]`. The chunk before that "
    "carries `usage`. A failure after the first content is a last chunk with `error`."
)


_REQUEST: Final = request_component("ChatRequest", ChatBody, MEANINGS, deprecated=DEPRECATED)
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
        parameters=[*HEADERS, *CACHE_HEADERS],
        request={"application/json": _REQUEST},
        examples=[_EXAMPLE],
        responses={
            (200, "application/json"): OpenApiResponse(CHAT_COMPLETION, description=_STREAM),
            (200, "text/event-stream"): OpenApiResponse(CHAT_CHUNK, description=_STREAM),
            **error_responses(*ERROR_STATUSES),
        },
    )(view)
    return described
