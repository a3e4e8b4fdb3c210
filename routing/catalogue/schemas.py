"""The catalogue's objects as the OpenAPI document tells them."""

from typing import Final

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import FLAG, TEXT, WHOLE, Component, array, nullable, obj, words
from routing.entities.prices import PRICE_KEYS
from routing.entities.vocabulary import (
    DEFAULT_PARAMETERS,
    EFFORTS,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
    QUANTIZATIONS,
    STATUSES,
)

_PRICE: Final = {"type": "string", "description": "USD per token or unit, a plain decimal."}
_NUMBER: Final = {"type": "number"}
_PRICES: Final[JsonObject] = dict.fromkeys(PRICE_KEYS, _PRICE)
_OVERRIDE: Final = Component(
    "PricingOverride",
    {
        "type": "object",
        "description": "Prices that replace others while all conditions hold; later entries win.",
        "properties": {
            "min_prompt_tokens": {"type": "integer", "description": "Strictly more than this."},
            "utc_start": {"type": "string", "description": "HHMM"},
            "utc_end": {"type": "string", "description": "HHMM, exclusive; may wrap midnight."},
            **_PRICES,
        },
    },
)
_PRICING: Final = Component(
    "Pricing",
    {
        "type": "object",
        "properties": {
            **_PRICES,
            "discount": {"type": "number", "minimum": 0, "maximum": 1},
            "overrides": array(_OVERRIDE),
        },
        "required": ["prompt", "completion"],
    },
)
_ARCHITECTURE: Final = Component(
    "Architecture",
    obj(
        {
            "modality": nullable(TEXT),
            "input_modalities": array(words(*INPUT_MODALITIES)),
            "output_modalities": array(words(*OUTPUT_MODALITIES)),
            "tokenizer": TEXT,
            "instruct_type": nullable(TEXT),
        }
    ),
)
_REASONING: Final = Component(
    "ModelReasoning",
    {
        "type": "object",
        "properties": {
            "mandatory": FLAG,
            "default_enabled": nullable(FLAG),
            "default_effort": words(*EFFORTS, None),
            "supported_efforts": nullable(array(words(*EFFORTS))),
            "supports_max_tokens": nullable(FLAG),
        },
        "required": ["mandatory", "supported_efforts"],
    },
)
_SUPPORTED: Final = array(words(*PARAMETERS))
_DEFAULTS: Final = {
    "type": ["object", "null"],
    "properties": dict.fromkeys(DEFAULT_PARAMETERS, nullable(_NUMBER)),
}
_LIMITS: Final = {
    "type": ["object", "null"],
    "properties": dict.fromkeys(("prompt_tokens", "completion_tokens"), nullable(WHOLE)),
}
MODEL: Final = Component(
    "Model",
    obj(
        {
            "id": TEXT,
            "canonical_slug": TEXT,
            "name": TEXT,
            "created": {"type": "integer", "description": "Unix seconds."},
            "description": TEXT,
            "context_length": nullable(WHOLE),
            "architecture": _ARCHITECTURE,
            "pricing": _PRICING,
            "top_provider": obj(
                {
                    "context_length": nullable(WHOLE),
                    "max_completion_tokens": nullable(WHOLE),
                    "is_moderated": FLAG,
                }
            ),
            "per_request_limits": _LIMITS,
            "supported_parameters": _SUPPORTED,
            "default_parameters": _DEFAULTS,
            "supported_voices": nullable(array(TEXT)),
            "links": obj({"details": TEXT}),
            "hugging_face_id": nullable(TEXT),
            "knowledge_cutoff": nullable(TEXT),
            "expiration_date": nullable(TEXT),
            "reasoning": _REASONING,
            "alias_target": obj({"slug": TEXT, "name": TEXT}),
        },
        optional=("reasoning", "alias_target"),
    ),
)
_UPTIME: Final = {
    "type": ["number", "null"],
    "description": "Percent; calls that were rate limited are not counted.",
}


def _statistics(description: str) -> JsonObject:
    return {
        "type": ["object", "null"],
        "description": description,
        "properties": dict.fromkeys(("p50", "p75", "p90", "p99"), _NUMBER),
    }


ENDPOINT: Final = Component(
    "Endpoint",
    obj(
        {
            "name": TEXT,
            "model_id": TEXT,
            "model_name": TEXT,
            "provider_name": TEXT,
            "tag": TEXT,
            "quantization": words(*QUANTIZATIONS, None),
            "context_length": nullable(WHOLE),
            "max_completion_tokens": nullable(WHOLE),
            "max_prompt_tokens": nullable(WHOLE),
            "pricing": _PRICING,
            "supported_parameters": _SUPPORTED,
            "supports_tool_choice": {
                **obj(dict.fromkeys(("auto", "none", "required", "function"), FLAG)),
                "description": "Which values of `tool_choice` it is sent.",
            },
            "native_tools": {
                "type": "object",
                "description": "Server tools that it runs itself: none, the gateway runs them.",
                "maxProperties": 0,
            },
            "supports_diarization": FLAG,
            "supports_implicit_caching": FLAG,
            "service_tier": words("flex", "priority", None),
            "status": {"type": "integer", "enum": list(STATUSES)},
            "uptime_last_5m": _UPTIME,
            "uptime_last_30m": _UPTIME,
            "uptime_last_1d": _UPTIME,
            "latency_last_30m": _statistics("Milliseconds to the first token."),
            "throughput_last_30m": _statistics("Tokens per second."),
        }
    ),
)
PROVIDER: Final = Component(
    "Provider",
    obj(
        {
            "name": TEXT,
            "slug": TEXT,
            "privacy_policy_url": nullable(TEXT),
            "terms_of_service_url": nullable(TEXT),
            "status_page_url": nullable(TEXT),
            "headquarters": {"type": ["string", "null"], "description": "ISO 3166-1 alpha-2."},
            "datacenters": nullable(array(TEXT)),
        }
    ),
)

MODEL_ANSWER: Final = Component("ModelAnswer", obj({"data": MODEL}))
MODEL_PAGE: Final = Component(
    "ModelPage",
    obj({"data": array(MODEL), "total_count": WHOLE, "links": obj({"next": nullable(TEXT)})}),
)
MODEL_ENDPOINTS: Final = Component(
    "ModelEndpoints",
    obj(
        {
            "data": obj(
                {
                    "id": TEXT,
                    "name": TEXT,
                    "created": WHOLE,
                    "description": TEXT,
                    "architecture": _ARCHITECTURE,
                    "endpoints": array(ENDPOINT),
                }
            )
        }
    ),
)
ENDPOINT_LIST: Final = Component("EndpointList", obj({"data": array(ENDPOINT)}))
PROVIDER_LIST: Final = Component("ProviderList", obj({"data": array(PROVIDER)}))
NAMED_MODEL: Final = Component(
    "NamedModel",
    obj(
        {
            "id": TEXT,
            "object": words("model"),
            "created": WHOLE,
            "owned_by": TEXT,
            "data": MODEL,
        }
    ),
)
COUNT: Final = Component("Count", obj({"data": obj({"count": WHOLE})}))
