"""Errors as the document describes them: one body for all, a sentence for each status. The
`Idempotency-Key` header with its 409 goes into the description of every POST that takes it."""

from typing import Final

from drf_spectacular.utils import OpenApiResponse

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import FLAG, TEXT, Component, array, nullable, obj, words

ERROR_TYPES: Final = (
    *("invalid_request", "invalid_prompt", "context_length_exceeded", "max_tokens_exceeded"),
    *("token_limit_exceeded", "string_too_long", "invalid_image", "image_too_large"),
    *("image_too_small", "unsupported_image_format", "image_download_failed", "authentication"),
    *("payment_required", "permission_denied", "content_policy_violation", "refusal"),
    *("not_found", "image_not_found", "precondition_failed", "payload_too_large"),
    *("unprocessable", "rate_limit_exceeded", "server", "unmapped", "provider_unavailable"),
    *("provider_overloaded", "timeout"),
)
ERROR_METADATA: Final = Component(
    "ErrorMetadata",
    obj(
        {
            "error_type": words(*ERROR_TYPES),
            "issues": array(obj({"path": TEXT, "message": TEXT})),
            "provider_name": nullable(TEXT),
            "provider_code": TEXT,
            "raw": {"type": "string", "description": "The upstream's own body, cut at 4096."},
            "failed_generation": {
                "type": "string",
                "description": "What the model wrote, where that is what the upstream refuses.",
            },
            "is_byok": FLAG,
            "previous_errors": array({"type": "object", "additionalProperties": True}),
            "limit_source": TEXT,
            "reason": TEXT,
            "remedy_hint": TEXT,
            "failed_routing_step": TEXT,
            "available_providers": array(TEXT),
            "request_id": {
                "type": "string",
                "description": "That of the request, as in the header `X-Request-Id`.",
            },
        },
        optional=(
            *("issues", "provider_name", "provider_code", "raw", "is_byok", "previous_errors"),
            *("limit_source", "reason", "remedy_hint", "failed_routing_step"),
            *("available_providers", "failed_generation", "request_id"),
        ),
        additionalProperties=True,
    ),
)
ERROR_OBJECT: Final = Component(
    "ErrorObject",
    obj(
        {
            "code": {"type": "integer", "description": "The HTTP status."},
            "message": TEXT,
            "metadata": ERROR_METADATA,
        }
    ),
)
ERROR: Final = Component(
    "Error",
    obj(
        {
            "error": ERROR_OBJECT,
            "user_id": {
                "type": ["string", "null"],
                "description": "Once the caller is known; null for a key without a creator.",
            },
            "router_metadata": {
                "type": "object",
                "additionalProperties": True,
                "description": "Where `X-Router-Metadata: enabled` asked for it.",
            },
        },
        optional=("user_id", "router_metadata"),
    ),
)
MESSAGES_ERROR: Final = Component(
    "MessagesError",
    obj(
        {
            "type": words("error"),
            "error": obj(
                {
                    "type": words(
                        *("invalid_request_error", "authentication_error", "billing_error"),
                        *("permission_error", "not_found_error", "rate_limit_error"),
                        *("api_error", "overloaded_error", "timeout_error"),
                    ),
                    "message": TEXT,
                    "error_type": words(*ERROR_TYPES),
                    "code": {"type": "integer", "description": "The HTTP status."},
                    "metadata": {"type": "object", "additionalProperties": True},
                },
                optional=("metadata",),
            ),
            "request_id": {
                "type": ["string", "null"],
                "description": "The generation's id, once an upstream was asked.",
            },
            "user_id": nullable(TEXT),
            "metadata": {"type": "object", "additionalProperties": True},
            "router_metadata": {"type": "object", "additionalProperties": True},
        },
        optional=("user_id", "metadata", "router_metadata"),
    ),
)

MEANINGS: Final = {
    400: "The request breaks the schema or cannot be served as it is.",
    401: "No credential, or one that is unknown, disabled, expired or of the wrong kind.",
    402: "Not enough credits, or the key's limit is used up.",
    403: "Not permitted: the key may not do this, a budget is used up, or content was refused.",
    404: "There is no such thing, or no endpoint is left that could serve the request.",
    408: "The request took longer than the gateway's own deadline.",
    409: "Something else happened to it at the same time.",
    410: "This path is gone for good.",
    413: "The body is too large.",
    422: "An upstream could not process the request.",
    429: "Too many requests, here or at the upstream.",
    500: "A fault of the gateway.",
    502: "The upstream's answer was unusable, or there was none.",
    503: "The gateway or the upstream is overloaded or not available.",
    524: "The upstream was too slow.",
    529: "The upstream says that it is overloaded.",
}


def error_responses(*statuses: int, body: Component = ERROR) -> dict[int, OpenApiResponse]:
    """These statuses with their meaning and the error body. Wherever a credential is asked for, too
    many wrong ones are refused, and too many requests may be."""
    every = {*statuses, 429} if 401 in statuses else set(statuses)
    return {status: OpenApiResponse(body, description=MEANINGS[status]) for status in sorted(every)}


# A count has nothing to happen twice, and interns and vaults have manners of their own.
_WITHOUT: Final = ("/api/v1/messages/count_tokens", "/api/v1/interns", "/api/v1/vault")
_CONFLICT: Final = "409"
_HEADER: Final = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": (
        "Names this request among the key's on this path: sent again with the same body it happens "
        "once, and is answered as before. 409 while the first is in progress, with another body, "
        "and where the answer is not kept."
    ),
}


def describe_idempotency(
    result: JsonObject, generator: object, request: object, public: bool
) -> JsonObject:
    """A postprocessing hook of drf-spectacular."""
    for path, methods in result["paths"].items():
        operation = methods.get("post")
        takes_key = operation and {} not in operation.get("security", ())
        if not takes_key or path.startswith(_WITHOUT):
            continue
        operation["parameters"] = [*operation.get("parameters", ()), _HEADER]
        responses = operation["responses"]
        # Whatever body the operation's refusals have.
        refusal = responses.get("400") or responses["401"]
        responses.setdefault(_CONFLICT, {**refusal, "description": MEANINGS[409]})
        operation["responses"] = dict(sorted(responses.items()))
    return result
