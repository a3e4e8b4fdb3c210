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
_MOMENT: Final = {"type": "string", "format": "date-time"}
_SPENDING: Final = {
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
            **_SPENDING,
            "is_free_tier": described(FLAG, "True while the account has never bought credits."),
            "is_management_key": FLAG,
            "is_provisioning_key": FLAG,
            "creator_user_id": nullable(TEXT),
            "expires_at": nullable(_MOMENT),
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

NEW_KEY: Final = Component(
    "Key",
    obj(
        {
            "hash": described(TEXT, "SHA-256 of the key string: its public identifier."),
            "name": TEXT,
            "label": described(TEXT, "The key, masked."),
            "disabled": FLAG,
            **_SPENDING,
            "created_at": _MOMENT,
            "updated_at": nullable(_MOMENT),
            "expires_at": nullable(_MOMENT),
            "creator_user_id": nullable(TEXT),
            "workspace_id": nullable(TEXT),
        }
    ),
)
KEY_BODY: Final = Component(
    "NewKey",
    {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "limit": nullable({"type": "number", "minimum": 0, "description": "USD."}),
            "limit_reset": words("daily", "weekly", "monthly", None),
            "include_byok_in_limit": {"type": "boolean", "default": False},
            "expires_at": nullable(_MOMENT),
            "creator_user_id": nullable(TEXT),
            "workspace_id": nullable({"type": "string", "format": "uuid"}),
        },
    },
)
NEW_KEY_ANSWER: Final = Component(
    "NewKeyAnswer", obj({"data": NEW_KEY, "key": described(TEXT, "The key, shown this once.")})
)

describe_key_creation = extend_schema(
    operation_id="createKey",
    summary="Create an inference key",
    description="Needs a management key. The key string is in this answer and never again.",
    tags=["Keys and credits"],
    request={"application/json": KEY_BODY},
    responses={
        201: OpenApiResponse(NEW_KEY_ANSWER, description="The key."),
        **error_responses(400, 401, 403, 413, 429, 500),
    },
)
