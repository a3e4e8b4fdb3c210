"""The catalogue endpoints as the OpenAPI description tells them."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from routing.catalogue.prices import PRICE_KEYS
from routing.catalogue.query import LIMIT_MAX, SORTS
from routing.catalogue.vocabulary import (
    CATEGORIES,
    INPUT_MODALITIES,
    PARAMETERS,
    QUANTIZATIONS,
    STATUSES,
)
from routing.catalogue.vocabulary import OUTPUT_MODALITIES as _OUTPUTS

Schema = dict[str, Any]


def _object(properties: Schema, *, optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(kind: str) -> Schema:
    return {"type": [kind, "null"]}


def _data(schema: Schema) -> dict[int, Schema]:
    return {200: _object({"data": schema})}


_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_PRICE: Final[Schema] = {"type": "string", "description": "USD per token or unit, a plain decimal."}
_OVERRIDE: Final = {
    "type": "object",
    "description": "Prices that replace others while all conditions hold; later entries win.",
    "properties": {
        "min_prompt_tokens": {"type": "integer", "description": "Strictly more than this."},
        "utc_start": {"type": "string", "description": "HHMM"},
        "utc_end": {"type": "string", "description": "HHMM, exclusive; may wrap past midnight."},
        **dict.fromkeys(PRICE_KEYS, _PRICE),
    },
}
_PRICING: Final = {
    "type": "object",
    "properties": {
        **dict.fromkeys(PRICE_KEYS, _PRICE),
        "discount": {"type": "number", "minimum": 0, "maximum": 1},
        "overrides": _array(_OVERRIDE),
    },
    "required": ["prompt", "completion"],
}
_ARCHITECTURE: Final = _object(
    {
        "modality": _nullable("string"),
        "input_modalities": _array({"type": "string", "enum": list(INPUT_MODALITIES)}),
        "output_modalities": _array({"type": "string", "enum": list(_OUTPUTS)}),
        "tokenizer": _TEXT,
        "instruct_type": _nullable("string"),
    }
)
_SUPPORTED: Final = _array({"type": "string", "enum": list(PARAMETERS)})
_MODEL: Final = _object(
    {
        "id": _TEXT,
        "canonical_slug": _TEXT,
        "name": _TEXT,
        "created": {"type": "integer", "description": "Unix seconds."},
        "description": _TEXT,
        "context_length": _nullable("integer"),
        "architecture": _ARCHITECTURE,
        "pricing": _PRICING,
        "top_provider": _object(
            {
                "context_length": _nullable("integer"),
                "max_completion_tokens": _nullable("integer"),
                "is_moderated": {"type": "boolean"},
            }
        ),
        "per_request_limits": _nullable("object"),
        "supported_parameters": _SUPPORTED,
        "default_parameters": _nullable("object"),
        "supported_voices": {"type": ["array", "null"], "items": _TEXT},
        "links": _object({"details": _TEXT}),
        "hugging_face_id": _nullable("string"),
        "knowledge_cutoff": _nullable("string"),
        "expiration_date": _nullable("string"),
        "reasoning": {"type": "object"},
        "alias_target": _object({"slug": _TEXT, "name": _TEXT}),
    },
    optional=("reasoning", "alias_target"),
)
_STATISTICS: Final = {
    "type": ["object", "null"],
    "properties": {name: {"type": "number"} for name in ("p50", "p75", "p90", "p99")},
}
_ENDPOINT: Final = _object(
    {
        "name": _TEXT,
        "model_id": _TEXT,
        "model_name": _TEXT,
        "provider_name": _TEXT,
        "tag": _TEXT,
        "quantization": {"type": ["string", "null"], "enum": [*QUANTIZATIONS, None]},
        "context_length": _nullable("integer"),
        "max_completion_tokens": _nullable("integer"),
        "max_prompt_tokens": _nullable("integer"),
        "pricing": _PRICING,
        "supported_parameters": _SUPPORTED,
        "supports_implicit_caching": {"type": "boolean"},
        "status": {"type": "integer", "enum": list(STATUSES)},
        "uptime_last_5m": _nullable("number"),
        "uptime_last_30m": _nullable("number"),
        "uptime_last_1d": _nullable("number"),
        "latency_last_30m": _STATISTICS,
        "throughput_last_30m": _STATISTICS,
    }
)
_PROVIDER: Final = _object(
    {
        "name": _TEXT,
        "slug": _TEXT,
        "privacy_policy_url": _nullable("string"),
        "terms_of_service_url": _nullable("string"),
        "status_page_url": _nullable("string"),
        "headquarters": {"type": ["string", "null"], "description": "ISO 3166-1 alpha-2."},
        "datacenters": {"type": ["array", "null"], "items": _TEXT},
    }
)

MODEL: Final = _data(_MODEL)
MODEL_PAGE: Final = {
    200: _object(
        {
            "data": _array(_MODEL),
            "total_count": _WHOLE,
            "links": _object({"next": _nullable("string")}),
        }
    )
}
MODEL_ENDPOINTS: Final = _data(
    _object(
        {
            "id": _TEXT,
            "name": _TEXT,
            "created": _WHOLE,
            "description": _TEXT,
            "architecture": _ARCHITECTURE,
            "endpoints": _array(_ENDPOINT),
        }
    )
)
ENDPOINT_LIST: Final = _data(_array(_ENDPOINT))
PROVIDER_LIST: Final = _data(_array(_PROVIDER))
COUNT: Final = _data(_object({"count": _WHOLE}))


def _parameter(name: str, description: str = "", **schema: Any) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", **schema}, description=description)


def _numbers(*names: str, description: str, kind: str = "number") -> list[OpenApiParameter]:
    return [_parameter(name, description, type=kind, minimum=0) for name in names]


OUTPUT_MODALITIES: Final = _parameter(
    "output_modalities", "Comma list, or `all`; `text` when absent."
)
MODEL_FILTERS: Final = [
    _parameter("offset", "Without offset and limit everything is returned.", type="integer"),
    _parameter("limit", "500 when only offset is given.", type="integer", maximum=LIMIT_MAX),
    _parameter("category", enum=list(CATEGORIES)),
    _parameter("supported_parameters", "Comma list; all of them must be supported."),
    OUTPUT_MODALITIES,
    _parameter("input_modalities", "Comma list; one of them is enough."),
    _parameter("q", "Text in name or id."),
    _parameter("context", "Least context length, tokens.", type="integer", minimum=1),
    *_numbers("min_price", "max_price", description="Prompt price, USD per million tokens."),
    *_numbers(
        *("min_output_price", "max_output_price"),
        description="Completion price, USD per million tokens.",
    ),
    _parameter("arch", "Comma list of families or tokenizers."),
    _parameter("model_authors", "Comma list."),
    _parameter("providers", "Comma list of slugs or names."),
    _parameter("distillable", enum=["true", "false"]),
    _parameter("zdr", enum=["true"]),
    _parameter("region", enum=["eu", "us"]),
    *_numbers("min_age_days", "max_age_days", description="Days since created.", kind="integer"),
    *_numbers("min_tool_success_rate", "max_tool_success_rate", description="0 to 1."),
    _parameter("sort", "`newest` when absent.", enum=list(SORTS)),
]
