"""How /credits is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiResponse, extend_schema

from gateway.openapi.components import NO_KEY, USD, Component, described, obj
from gateway.openapi.errors import error_responses

_TAGS: Final = ["Keys and credits"]
CREDITS: Final = Component(
    "Credits",
    obj(
        {
            "data": obj(
                {
                    "total_credits": described(USD, "USD bought in total."),
                    "total_usage": described(USD, "USD used in total."),
                }
            )
        }
    ),
)

describe_credits = extend_schema(
    operation_id="getCredits",
    summary="Get the account's credits",
    description="Takes a management key. The balance is the difference and may be negative.",
    tags=_TAGS,
    responses={
        200: OpenApiResponse(CREDITS, description="Both totals."),
        **error_responses(401, 403, 500),
    },
)
describe_coinbase = extend_schema(
    operation_id="createCoinbaseCharge",
    summary="Charge by crypto (gone)",
    description="Always 410.",
    tags=_TAGS,
    deprecated=True,
    auth=NO_KEY,
    request=None,
    responses=error_responses(410, 500),
)
