"""How /key is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiResponse, extend_schema

from gateway.openapi.components import (
    FLAG,
    TEXT,
    USD,
    WHOLE,
    Component,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import error_responses

_WINDOWS: Final = ("", "_daily", "_weekly", "_monthly")
MOMENT: Final = {"type": "string", "format": "date-time"}
SPENDING: Final = {
    "limit": nullable(described(USD, "USD it may spend; null for no limit.")),
    "limit_remaining": nullable(described(USD, "USD left of the limit.")),
    "limit_reset": words("daily", "weekly", "monthly", None),
    "include_byok_in_limit": FLAG,
    **{f"usage{window}": USD for window in _WINDOWS},
    **{f"byok_usage{window}": USD for window in _WINDOWS},
}
KEY: Final = Component(
    "CurrentKey",
    obj(
        {
            "label": described(TEXT, "The key, masked."),
            **SPENDING,
            "is_free_tier": described(FLAG, "True while the account has never bought credits."),
            "is_management_key": FLAG,
            "is_provisioning_key": FLAG,
            "creator_user_id": nullable(TEXT),
            "expires_at": nullable(MOMENT),
            "rate_limit": obj({"requests": WHOLE, "interval": TEXT, "note": TEXT}, deprecated=True),
        }
    ),
)
KEY_ANSWER: Final = Component("CurrentKeyAnswer", obj({"data": KEY}))

describe_key = extend_schema(
    operation_id="getCurrentKey",
    summary="Get the key that asks",
    description="Its limit, what it spent in each UTC window, and what kind of key it is.",
    tags=["Keys and credits"],
    responses={
        200: OpenApiResponse(KEY_ANSWER, description="The key."),
        **error_responses(401, 403, 500, 503),
    },
)
