"""How /responses is described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.openapi.errors import error_responses
from routing.formats.responses.schema import ResponsesBody
from routing.views.openapi.inference_description import (
    CACHE_HEADERS,
    ERROR_STATUSES,
    HEADERS,
    request_component,
)
from routing.views.openapi.responses_answer_schemas import RESPONSE, RESPONSE_EVENT
from routing.views.openapi.responses_parameters import MEANINGS

F = TypeVar("F", bound=Callable[..., object])

_STREAM: Final = (
    "With `stream: true` server-sent events, numbered from 0 by `sequence_number`, from "
    "`response.created` to `response.completed` (or `response.incomplete`), then `data: [DONE]`. "
    "A failure after the first content is a last event `response.failed`."
)
_REQUEST: Final = request_component("ResponsesRequest", ResponsesBody, MEANINGS)
_EXAMPLE: Final = OpenApiExample(
    "A question",
    value={"model": "simulated/small", "input": "Say hello."},
    request_only=True,
)


def describe_responses(view: F) -> F:
    """Describe the operation: the schema its bodies are checked by, its answers and refusals."""
    described: F = extend_schema(
        operation_id="createResponse",
        summary="Answer a conversation, for responses clients",
        description=(
            "As chat completions, in the responses format. Nothing is stored: each request brings "
            "the whole conversation."
        ),
        tags=["Responses"],
        parameters=[*HEADERS, *CACHE_HEADERS],
        request={"application/json": _REQUEST},
        examples=[_EXAMPLE],
        responses={
            (200, "application/json"): OpenApiResponse(RESPONSE, description=_STREAM),
            (200, "text/event-stream"): OpenApiResponse(RESPONSE_EVENT, description=_STREAM),
            **error_responses(*ERROR_STATUSES),
        },
    )(view)
    return described
