"""How /credits/payments is described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.openapi.components import FLAG, NO_KEY, TEXT, Component, described, obj
from gateway.openapi.errors import error_responses

PAYMENT: Final = Component(
    "Payment",
    obj(
        {
            "source": {
                "type": "string",
                "minLength": 1,
                "maxLength": 32,
                "description": "Who tells, such as the payment provider's name.",
            },
            "source_ref": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": "The payment's id there. The same one counts once.",
            },
            "account_id": {"type": "string", "format": "uuid"},
            "amount_usd": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 1_000_000_000,
                "description": "What was paid, in USD, at most 9 decimal places.",
            },
        }
    ),
)
_ANSWER: Final = Component(
    "PaymentAnswer",
    obj({"data": obj({"credited": described(FLAG, "False where it was told before.")})}),
)

describe_payment = extend_schema(
    operation_id="tellPayment",
    summary="Tell of a payment",
    description=(
        "For payment providers: credits the account with what was paid, less the gateway's fee. "
        "Told again with the same account and amount it changes nothing; with others it is 409. "
        "404 where no secret is set (`CREDITS_WEBHOOK_SECRET`)."
    ),
    tags=["Keys and credits"],
    auth=NO_KEY,
    parameters=[
        OpenApiParameter(
            "X-Signature",
            TEXT,
            OpenApiParameter.HEADER,
            required=True,
            description="`sha256=` and the hex HMAC-SHA256 of the raw body under the secret.",
        )
    ],
    request={"application/json": PAYMENT},
    responses={
        200: OpenApiResponse(_ANSWER, description="It is in the books."),
        **error_responses(400, 401, 403, 404, 409, 413, 500),
    },
)
