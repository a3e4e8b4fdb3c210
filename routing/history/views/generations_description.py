"""How content and feedback are described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

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
from gateway.openapi.errors import error_responses
from routing.history.models import GenerationFeedback

_OPEN: Final = {"type": "object", "additionalProperties": True}
_PROMPT: Final = described(
    obj({"messages": array(_OPEN)}),
    "The chat messages that the request came to, whatever format it was in.",
)
_OUTPUT: Final = obj(
    {
        "completion": nullable(TEXT),
        "reasoning": nullable(TEXT),
        "tool_calls": array(_OPEN),
    },
    optional=("tool_calls",),
)
_ERROR: Final = Component(
    "GenerationContentError",
    obj(
        {
            "message": TEXT,
            "status": WHOLE,
            "provider_name": nullable(TEXT),
            "raw": nullable(TEXT),
            "previous_errors": array(_OPEN),
        }
    ),
)
CONTENT: Final = Component(
    "GenerationContent",
    obj(
        {
            "input": _PROMPT,
            "output": _OUTPUT,
            "error": nullable(_ERROR),
            "truncated": described(FLAG, "True where there was more than is kept."),
        },
        optional=("truncated",),
    ),
)
_CONTENT_ANSWER: Final = Component("GenerationContentAnswer", obj({"data": CONTENT}))
FEEDBACK: Final = Component(
    "GenerationFeedback",
    obj(
        {
            "generation_id": {"type": "string", "minLength": 1},
            "category": words(*GenerationFeedback.Category.values),
            "comment": nullable(
                {"type": "string", "maxLength": GenerationFeedback.COMMENT_CHARS_MAX}
            ),
        },
        optional=("comment",),
    ),
)
_FEEDBACK_ANSWER: Final = Component(
    "GenerationFeedbackAnswer", obj({"data": obj({"success": FLAG})})
)

content = extend_schema(
    operation_id="getGenerationContent",
    summary="Get the content of a generation",
    description=(
        "What was asked and answered. It is there for generations of workspaces that log inputs "
        "and outputs, for as many days as the operator keeps them. In an organization it takes a "
        "management key or one that an admin has made."
    ),
    tags=["Generations"],
    parameters=[OpenApiParameter("id", {"type": "string", "minLength": 1}, required=True)],
    responses={
        200: OpenApiResponse(_CONTENT_ANSWER, description="Prompt and answer."),
        **error_responses(400, 401, 403, 404, 429, 500),
    },
)
feedback = extend_schema(
    operation_id="createGenerationFeedback",
    summary="Give feedback on a generation",
    description="Kept for the operator. Takes a management key.",
    tags=["Generations"],
    request={"application/json": FEEDBACK},
    responses={
        200: OpenApiResponse(_FEEDBACK_ANSWER, description="It is kept."),
        **error_responses(400, 401, 403, 404, 413, 429, 500),
    },
)
