"""How analytics and activity are described in the OpenAPI document."""

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
from routing.history.activity import DAYS
from routing.history.body import LIMIT_DEFAULT, LIMIT_MAX
from routing.history.dialect import GRANULARITIES
from routing.history.metrics import ARRAY, DIMENSIONS, METRICS, SCALAR

_MOMENT: Final = {"type": "string", "format": "date-time"}
_ROWS: Final = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}
META: Final = Component(
    "AnalyticsMeta",
    obj(
        {
            "metrics": array(
                obj(
                    {
                        "name": TEXT,
                        "display_label": TEXT,
                        "is_rate": FLAG,
                        "display_format": words(
                            "number", "currency", "percent", "latency", "throughput"
                        ),
                    }
                )
            ),
            "dimensions": array(obj({"name": TEXT, "display_label": TEXT})),
            "operators": array(obj({"name": TEXT, "value_type": words("scalar", "array")})),
            "granularities": array(obj({"name": TEXT, "display_label": TEXT})),
        }
    ),
)
_VALUE: Final = {"type": ["string", "number"]}
_FILTER: Final = obj(
    {
        "field": words(*DIMENSIONS),
        "operator": words(*SCALAR, *ARRAY),
        "value": {"anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1}]},
        "include_unset": FLAG,
    },
    optional=("include_unset",),
)
QUERY: Final = Component(
    "AnalyticsQuery",
    obj(
        {
            "metrics": {**array(words(*METRICS)), "minItems": 1},
            "dimensions": {**array(words(*DIMENSIONS)), "maxItems": 2},
            "granularity": nullable(words(*GRANULARITIES)),
            "time_range": nullable(obj({"start": _MOMENT, "end": _MOMENT})),
            "filters": {**array(_FILTER), "maxItems": 20},
            "order_by": nullable(
                obj({"field": TEXT, "direction": words("asc", "desc")}, optional=("direction",))
            ),
            "limit": {**_ROWS, "default": LIMIT_DEFAULT},
            "group_limit": nullable(_ROWS),
        },
        optional=(
            *("dimensions", "granularity", "time_range", "filters", "order_by"),
            *("limit", "group_limit"),
        ),
    ),
)
_FOUND: Final = Component(
    "AnalyticsAnswer",
    obj(
        {
            "data": obj(
                {
                    "data": array({"type": "object", "additionalProperties": True}),
                    "metadata": obj(
                        {
                            "query_time_ms": WHOLE,
                            "row_count": WHOLE,
                            "truncated": described(FLAG, "Whether `limit` cut rows off."),
                        }
                    ),
                }
            )
        }
    ),
)
ACTIVITY: Final = Component(
    "Activity",
    obj(
        {
            "date": {"type": "string", "format": "date"},
            "model": TEXT,
            "model_permaslug": TEXT,
            "endpoint_id": TEXT,
            "provider_name": TEXT,
            "requests": WHOLE,
            "prompt_tokens": WHOLE,
            "completion_tokens": WHOLE,
            "reasoning_tokens": WHOLE,
            "usage": described(USD, "USD of credits."),
            "byok_usage_inference": described(USD, "USD that BYOK calls would have cost."),
            "workspace_id": {"type": "string", "format": "uuid"},
        },
        optional=("workspace_id",),
    ),
)
_META_ANSWER: Final = Component("AnalyticsMetaAnswer", obj({"data": META}))
_ACTIVITY_LIST: Final = Component("ActivityList", obj({"data": array(ACTIVITY)}))

meta = extend_schema(
    operation_id="getAnalyticsMeta",
    summary="List what analytics can be asked",
    description="Metrics, dimensions, operators and granularities. Takes a management key.",
    tags=["Analytics"],
    responses={
        200: OpenApiResponse(_META_ANSWER, description="What there is."),
        **error_responses(401, 403, 429, 500),
    },
)
query = extend_schema(
    operation_id="queryAnalytics",
    summary="Query analytics",
    description=(
        "Metrics of the account's generations by up to two dimensions and a period, exact up to "
        "the last answer. Without a time range the last 7 days are meant. Performance, guardrail "
        "and response-cache metrics, and some dimensions, reach over 31 days, all others over 365. "
        "Rows bear names for keys, workspaces, apps and users; filters take their ids. Takes a "
        "management key."
    ),
    tags=["Analytics"],
    request={"application/json": QUERY},
    responses={
        200: OpenApiResponse(_FOUND, description="The rows."),
        **error_responses(400, 401, 403, 408, 413, 429, 500),
    },
)
listing = extend_schema(
    operation_id="getActivity",
    summary="List what endpoints were used for",
    description=(
        f"One row for each day, model and endpoint of the last {DAYS} full days (UTC), the last "
        "day first. Takes a management key."
    ),
    tags=["Analytics"],
    parameters=[
        OpenApiParameter("date", {"type": "string", "format": "date"}),
        OpenApiParameter("api_key_hash", {"type": "string", "pattern": "^[0-9a-f]{64}$"}),
        OpenApiParameter("user_id", str, description="Whoever made the keys."),
        OpenApiParameter("workspace_id", {"type": "string", "format": "uuid"}),
        OpenApiParameter("group_by", {"type": "string", "enum": ["workspace"]}),
    ],
    responses={
        200: OpenApiResponse(_ACTIVITY_LIST, description="The rows; there is only one page."),
        **error_responses(400, 401, 403, 404, 408, 429, 500),
    },
)
