"""How /embeddings is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema

from gateway.openapi.components import TEXT, USD, WHOLE, Component, add_description, obj, words
from gateway.openapi.errors import error_responses
from routing.formats.embeddings import EmbeddingsBody
from routing.views.openapi.chat import CHAT_MEANINGS, ROUTER_METADATA
from routing.views.openapi.inference import (
    CACHE_HEADERS,
    ERROR_STATUSES,
    HEADERS,
    request_component,
)

_SAME: Final = ("models", "provider", "preset", "user", "metadata", "trace")
_MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in _SAME},
    "model": "Id or alias of a model that makes embeddings.",
    "input": (
        "A text, a list of at most 2048 texts, the tokens of one input, or a list of such lists. "
        "None is empty. Guardrails that look at texts take no tokens."
    ),
    "dimensions": "How long each vector is to be, where the model can make shorter ones.",
    "encoding_format": "`base64` writes 32-bit floats, little end first; `float` is the default.",
}
_VECTOR: Final = {
    "oneOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}],
    "description": "Numbers, or the same in base64.",
}
_ANSWER: Final = Component(
    "EmbeddingsResponse",
    obj(
        {
            "object": words("list"),
            "data": {
                "type": "array",
                "items": obj({"object": words("embedding"), "index": WHOLE, "embedding": _VECTOR}),
            },
            "model": add_description(TEXT, "The model that answered."),
            "usage": obj(
                {
                    "prompt_tokens": WHOLE,
                    "total_tokens": WHOLE,
                    "cost": add_description(USD, "USD charged to the account, exactly."),
                    "cost_details": {"type": "object", "additionalProperties": True},
                    "is_byok": {"type": "boolean"},
                }
            ),
            "id": TEXT,
            "provider": TEXT,
            "router_metadata": ROUTER_METADATA,
        },
        optional=("router_metadata",),
    ),
)

describe_embeddings = extend_schema(
    operation_id="createEmbeddings",
    summary="Make vectors of texts",
    description=(
        "One vector for each input, by a model with the output modality `embeddings`. Endpoints "
        "are chosen, tried and charged as for chat completions, by prompt tokens."
    ),
    tags=["Embeddings"],
    parameters=[*HEADERS, *CACHE_HEADERS],
    request={"application/json": request_component("EmbeddingsRequest", EmbeddingsBody, _MEANINGS)},
    examples=[
        OpenApiExample(
            "Two texts",
            value={"model": "simulated/embedding", "input": ["Good morning", "Good evening"]},
            request_only=True,
        )
    ],
    responses={
        200: OpenApiResponse(_ANSWER, description="A vector for each input, in their order."),
        **error_responses(*ERROR_STATUSES),
    },
)
