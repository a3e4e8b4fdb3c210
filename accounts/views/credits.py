"""/credits: what the account bought and what it used; payments that providers report."""

import hashlib
import hmac
from typing import Annotated, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from accounts.authentication import authenticate_optional
from accounts.models import Account
from accounts.money import usd_to_nano
from accounts.services.books.credits import OWN_SOURCES, MovementConflict, take_payment
from accounts.services.records import command_actor
from accounts.views.managed import ManagedViewSet, describe_operations
from accounts.views.schemas.fields import Id, PositiveUsd
from gateway.database.db import Lane, run_queries
from gateway.http.body import parse_large, read_body
from gateway.http.errors import (
    Conflict,
    GatewayError,
    Gone,
    SchemaInvalid,
    Unauthenticated,
    UnknownPath,
)
from gateway.http.jsonio import Raw, usd
from gateway.http.resources import Body
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import (
    FLAG,
    NO_KEY,
    TEXT,
    USD,
    Component,
    add_description,
    component,
    obj,
)
from gateway.openapi.errors import error_responses

_TAG: Final = "Keys and credits"
_SCHEME: Final = b"sha256="
_CREDITS: Final = Component(
    "Credits",
    obj(
        {
            "data": obj(
                {
                    "total_credits": add_description(USD, "USD bought in total."),
                    "total_usage": add_description(USD, "USD used in total."),
                }
            )
        }
    ),
)
_operation = describe_operations(_TAG)


def _check_source(source: str) -> str:
    if source in OWN_SOURCES:
        raise PydanticCustomError("own_source", "Invalid input: the gateway itself books under it")
    return source


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("printable", "Invalid input: expected printable characters")
    return text


_Words = Annotated[str, Field(min_length=1), AfterValidator(_check_printable)]


class Payment(Body):
    """What was paid, and at whom; unknown fields are ignored."""

    source: Annotated[_Words, Field(max_length=32), AfterValidator(_check_source)] = Field(
        description="Who tells, such as the payment provider's name."
    )
    source_ref: Annotated[_Words, Field(max_length=200)] = Field(
        description="The payment's id there. The same one counts once."
    )
    account_id: Id
    amount_usd: PositiveUsd = Field(description="What was paid, in USD, at most 9 decimal places.")


class CreditsViewSet(ManagedViewSet):
    """What the account bought and used."""

    @_operation(
        "getCredits",
        "Get the account's credits",
        "Both totals. The balance is the difference and may be negative.",
        _CREDITS,
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        totals = Account.objects.filter(pk=caller.account_id).values_list(
            "total_credits_nano", "total_usage_nano"
        )
        bought_nano, used_nano = run_queries(Lane.READ, totals.get)
        data = {"total_credits": usd(bought_nano), "total_usage": usd(used_nano)}
        return json_response({"data": data})

    @extend_schema(
        operation_id="createCoinbaseCharge",
        summary="Charge by crypto (gone)",
        description="Always 410.",
        tags=[_TAG],
        deprecated=True,
        auth=NO_KEY,
        request=None,
        responses=error_responses(410, 500),
    )
    def coinbase(self, request: HttpRequest) -> HttpResponseBase:
        raise Gone("The crypto charge API is gone. Use the web purchase flow.")


_ANSWER: Final = Component(
    "PaymentAnswer",
    obj({"data": obj({"credited": add_description(FLAG, "False where it was told before.")})}),
)
_SIGNATURE: Final = OpenApiParameter(
    "X-Signature",
    TEXT,
    OpenApiParameter.HEADER,
    required=True,
    description="`sha256=` and the hex HMAC-SHA256 of the raw body under the secret.",
)


class PaymentsViewSet(LeanViewSet):
    """Known by the signature of the body. There is no 503 among the statuses of credits."""

    outage_error = GatewayError

    @extend_schema(
        operation_id="tellPayment",
        summary="Tell of a payment",
        description=(
            "For payment providers: credits the account with what was paid, less the gateway's "
            "fee. Told again with the same account and amount it changes nothing; with others it "
            "is 409. 404 where no secret is set (`CREDITS_WEBHOOK_SECRET`)."
        ),
        tags=[_TAG],
        auth=NO_KEY,
        parameters=[_SIGNATURE],
        request={"application/json": component(Payment)},
        responses={
            200: OpenApiResponse(_ANSWER, description="It is in the books."),
            **error_responses(400, 401, 403, 404, 409, 413, 500),
        },
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        secret: str = settings.CREDITS_WEBHOOK_SECRET
        if not secret:
            raise UnknownPath
        # None is needed; one that is there must be good.
        authenticate_optional(request)
        raw = read_body(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        if not is_signed(raw, str(request.META.get("HTTP_X_SIGNATURE", "")), secret):
            raise Unauthenticated("Invalid signature")
        payment = Payment.read(parse_large(raw))
        credited = run_queries(Lane.OPERATOR, lambda: _credit(payment))
        return json_response({"data": {"credited": credited}})


def is_signed(raw: Raw, signature: str, secret: str) -> bool:
    """Whether the header is `sha256=` and the hex HMAC of these bytes, found in constant time."""
    digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest().encode()
    given = signature.encode("utf-8", "replace")
    return hmac.compare_digest(given, _SCHEME + digest)


def _credit(payment: Payment) -> bool:
    """Whether it was reported for the first time. Raises `SchemaInvalid` and `Conflict`."""
    account = Account.objects.filter(pk=payment.account_id).first()
    if account is None:
        raise SchemaInvalid([Issue("account_id", "Invalid input: no such account")])
    try:
        _, new = take_payment(
            account=account,
            paid_nano=usd_to_nano(payment.amount_usd),
            source=payment.source,
            source_ref=payment.source_ref,
            by=command_actor("payments"),
        )
    except MovementConflict:
        text = "source and source_ref name another payment: its account or amount differs"
        raise Conflict(text) from None
    return new
