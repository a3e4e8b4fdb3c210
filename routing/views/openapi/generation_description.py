"""How /generation is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

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
from gateway.openapi.errors import error_responses

_MILLISECONDS: Final = nullable(described(WHOLE, "Milliseconds."))
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
PROVIDER_RESPONSE: Final = Component(
    "ProviderResponse",
    obj(
        {
            "status": _MAYBE_WHOLE,
            "provider_name": TEXT,
            "model_permaslug": TEXT,
            "endpoint_id": TEXT,
            "id": _MAYBE_TEXT,
            "latency": _MILLISECONDS,
            "is_byok": FLAG,
            "routed_service_tier": _MAYBE_TEXT,
        },
        optional=(
            *("provider_name", "model_permaslug", "endpoint_id", "id", "latency", "is_byok"),
            "routed_service_tier",
        ),
        description="One attempt at an endpoint.",
    ),
)
GENERATION: Final = Component(
    "Generation",
    obj(
        {
            "id": TEXT,
            "request_id": _MAYBE_TEXT,
            "upstream_id": _MAYBE_TEXT,
            "created_at": {"type": "string", "format": "date-time"},
            "model": TEXT,
            "provider_name": _MAYBE_TEXT,
            "router": _MAYBE_TEXT,
            "api_type": nullable(words("completions", "decisions")),
            "app_id": _MAYBE_TEXT,
            "workspace_id": _MAYBE_TEXT,
            "preset_id": _MAYBE_TEXT,
            "session_id": _MAYBE_TEXT,
            "external_user": _MAYBE_TEXT,
            "origin": TEXT,
            "http_referer": _MAYBE_TEXT,
            "user_agent": _MAYBE_TEXT,
            "data_region": words("global", "europe", "us"),
            "streamed": nullable(FLAG),
            "cancelled": nullable(FLAG),
            "finish_reason": _MAYBE_TEXT,
            "native_finish_reason": _MAYBE_TEXT,
            "latency": _MILLISECONDS,
            "generation_time": _MILLISECONDS,
            "moderation_latency": _MILLISECONDS,
            "tokens_prompt": _MAYBE_WHOLE,
            "tokens_completion": _MAYBE_WHOLE,
            "native_tokens_prompt": _MAYBE_WHOLE,
            "native_tokens_completion": _MAYBE_WHOLE,
            "native_tokens_reasoning": _MAYBE_WHOLE,
            "native_tokens_cached": _MAYBE_WHOLE,
            "native_tokens_completion_images": _MAYBE_WHOLE,
            "num_media_prompt": _MAYBE_WHOLE,
            "num_media_completion": _MAYBE_WHOLE,
            "num_input_audio_prompt": _MAYBE_WHOLE,
            "num_search_results": _MAYBE_WHOLE,
            "num_fetches": _MAYBE_WHOLE,
            "web_search_engine": _MAYBE_TEXT,
            "service_tier": _MAYBE_TEXT,
            "is_byok": FLAG,
            "usage": described(USD, "USD charged to the account."),
            "total_cost": described(USD, "USD charged to the account."),
            "upstream_inference_cost": nullable(USD),
            "cache_discount": nullable(USD),
            "response_cache_source_id": _MAYBE_TEXT,
            "provider_responses": nullable(array(PROVIDER_RESPONSE)),
        }
    ),
)
GENERATION_ANSWER: Final = Component("GenerationAnswer", obj({"data": GENERATION}))

describe_generation = extend_schema(
    operation_id="getGeneration",
    summary="Get the record of a generation",
    description=(
        "Tokens, cost and every attempt, by the id of the answer (`X-Generation-Id`). The record "
        "is there once the answer has ended. Another account's id is not found."
    ),
    tags=["Generations"],
    parameters=[
        OpenApiParameter("id", {"type": "string", "minLength": 1}, required=True),
    ],
    responses={
        200: OpenApiResponse(GENERATION_ANSWER, description="The record."),
        **error_responses(400, 401, 403, 404, 429, 500, 503),
    },
)
