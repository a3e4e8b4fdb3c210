"""How /key is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiResponse, extend_schema

from accounts.models.guardrail import DATA_REGIONS
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

_WINDOWS: Final = ("", "_daily", "_weekly", "_monthly")
UUID_TEXT: Final = {"type": "string", "format": "uuid"}
MOMENT: Final = {"type": "string", "format": "date-time"}
SPENDING: Final = {
    "limit": nullable(described(USD, "USD it may spend; null for no limit.")),
    "limit_remaining": nullable(described(USD, "USD left of the limit.")),
    "limit_reset": words("daily", "weekly", "monthly", None),
    "include_byok_in_limit": FLAG,
    **{f"usage{window}": USD for window in _WINDOWS},
    **{f"byok_usage{window}": USD for window in _WINDOWS},
}
_COUNT: Final = {"type": "integer", "minimum": -1}
BUDGET: Final = Component(
    "CurrentKeyBudget",
    obj(
        {
            "scope": words(
                *("workspace_default_member", "workspace_default_key", "member", "api_key"),
                *("workspace", "key_limit"),
            ),
            "limit_usd": USD,
            "spend_usd": USD,
            "remaining_usd": described(USD, "May be below zero."),
            "reset_interval": words("daily", "weekly", "monthly", None),
            "resets_at": nullable(MOMENT),
            "include_byok": FLAG,
            "guardrail_id": nullable(UUID_TEXT),
            "budget_id": nullable(UUID_TEXT),
        }
    ),
)
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
            "workspace_id": nullable(UUID_TEXT),
            "organization_id": UUID_TEXT,
            "budgets": described(
                array(BUDGET), "All that it is held to, in the order in which they refuse."
            ),
            "effective_budget": described(nullable(BUDGET), "The one with the least left."),
            "allowed_data_regions": described(
                array(words(*DATA_REGIONS)), "Hosts that take requests of this key."
            ),
            "free_model_daily_requests": described(
                obj({"limit": _COUNT, "used": WHOLE, "remaining": _COUNT}),
                "Requests of the account to free variants today (UTC); -1 and -1 where there is "
                "no limit, and then none are counted.",
            ),
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
