"""How /messages and /messages/count_tokens are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.openapi.components import EITHER_KEY
from gateway.openapi.errors import MESSAGES_ERROR, error_responses
from routing.formats.messages.schema import MessagesBody
from routing.views.openapi.inference_description import (
    CACHE_HEADERS,
    ERROR_STATUSES,
    HEADERS,
    request_component,
)
from routing.views.openapi.messages_answer_schemas import MESSAGE, MESSAGE_EVENT, TOKEN_COUNT
from routing.views.openapi.messages_parameters import MEANINGS

F = TypeVar("F", bound=Callable[..., object])

# What an upstream cannot process is a 400 here.
_STATUSES: Final = tuple(status for status in ERROR_STATUSES if status != 422)
_COUNT_STATUSES: Final = (400, 401, 403, 404, 413, 500, 503)
_STREAM: Final = (
    "With `stream: true` server-sent events in the order of the message: `message_start`, `ping`, "
    "blocks, `message_delta` with `usage`, `message_stop`; `ping` comes again while there is "
    "silence. A failure after the first content is a last event `error`."
)
_REQUEST: Final = request_component("MessagesRequest", MessagesBody, MEANINGS)
_EXAMPLE: Final = OpenApiExample(
    "A question",
    value={
        "model": "simulated/small",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Say hello."}],
    },
    request_only=True,
)


def describe_messages(view: F) -> F:
    """Describe the operation: the schema its bodies are checked by, its answers and refusals."""
    described: F = extend_schema(
        operation_id="createMessage",
        summary="Answer a conversation, for message-style clients",
        description=(
            "As chat completions, in the messages format. The key may stand in `x-api-key`. "
            "Tools that only message-style upstreams run are offered by these alone."
        ),
        tags=["Messages"],
        auth=EITHER_KEY,
        parameters=[*HEADERS, *CACHE_HEADERS],
        request={"application/json": _REQUEST},
        examples=[_EXAMPLE],
        responses={
            (200, "application/json"): OpenApiResponse(MESSAGE, description=_STREAM),
            (200, "text/event-stream"): OpenApiResponse(MESSAGE_EVENT, description=_STREAM),
            **error_responses(*_STATUSES, body=MESSAGES_ERROR),
        },
    )(view)
    return described


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
        examples=[_EXAMPLE],
        responses={
            200: OpenApiResponse(TOKEN_COUNT, description="The tokens of the prompt."),
            **error_responses(*_COUNT_STATUSES, body=MESSAGES_ERROR),
        },
    )(view)
    return described
