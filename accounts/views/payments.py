"""POST /credits/payments: a payment provider tells of money that came in."""

import hashlib
import hmac
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.authentication import authenticate_optional
from accounts.models import Account
from accounts.money import usd_to_nano
from accounts.services.credits import OWN_SOURCES, MovementConflict, take_payment
from accounts.services.records import command_actor
from accounts.views.openapi.payments_description import describe_payment
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_body
from gateway.http.errors import Conflict, GatewayError, SchemaInvalid, Unauthenticated, UnknownPath
from gateway.http.jsonio import Raw
from gateway.http.large import parse_large
from gateway.http.responses import json_response
from gateway.http.validation import UNDEFINED, Issue, list_issues
from gateway.http.viewset import LeanViewSet

_SCHEME: Final = b"sha256="


def _usd(value: Any) -> int:
    """A JSON number above zero, as nano-USD."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    try:
        nano = usd_to_nano(Decimal(repr(value)))
    except ValueError:
        raise PydanticCustomError(
            "usd", "Invalid input: expected at most 9 decimal places and a billion USD"
        ) from None
    if nano <= 0:
        raise PydanticCustomError("above_zero", "Too small: expected number to be >0")
    return nano


def _foreign(source: str) -> str:
    if source in OWN_SOURCES:
        raise PydanticCustomError("own_source", "Invalid input: the gateway itself books under it")
    return source


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("printable", "Invalid input: expected printable characters")
    return text


_Words = Annotated[str, Field(min_length=1), AfterValidator(_printable)]


class Payment(BaseModel):
    """What a payment provider tells; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, validate_default=True)

    source: Annotated[_Words, Field(max_length=32), AfterValidator(_foreign)] = UNDEFINED  # type: ignore[assignment]  # So that a missing field is told in the words of a wrong one.
    source_ref: Annotated[_Words, Field(max_length=200)] = UNDEFINED  # type: ignore[assignment]  # Likewise.
    account_id: Annotated[UUID, Field(strict=False)] = UNDEFINED  # type: ignore[assignment]  # Likewise.
    amount_usd: Annotated[int, BeforeValidator(_usd)] = UNDEFINED  # type: ignore[assignment]  # Likewise.


class PaymentsViewSet(LeanViewSet):
    """Known by the signature of the body. There is no 503 among the statuses of credits."""

    @describe_payment
    def create(self, request: HttpRequest) -> HttpResponseBase:
        secret: str = settings.CREDITS_WEBHOOK_SECRET
        if not secret:
            raise UnknownPath
        # None is needed; one that is there must be good.
        authenticate_optional(request)
        raw = read_body(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        if not is_signed(raw, str(request.META.get("HTTP_X_SIGNATURE", "")), secret):
            raise Unauthenticated("Invalid signature")
        payment = read_payment(parse_large(raw))
        credited = run_queries(Lane.OPERATOR, lambda: _credited(payment))
        return json_response({"data": {"credited": credited}})

    def database_gone(self) -> GatewayError:
        return GatewayError()


def is_signed(raw: Raw, signature: str, secret: str) -> bool:
    """Whether the header is `sha256=` and the hex HMAC of these bytes, found in constant time."""
    digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest().encode()
    told = signature.encode("utf-8", "replace")
    return hmac.compare_digest(told, _SCHEME + digest)


def read_payment(body: Any) -> Payment:
    """The checked body. Raises `SchemaInvalid`."""
    try:
        return Payment.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None


def _credited(payment: Payment) -> bool:
    """Whether it was not told before. Raises `SchemaInvalid` and `Conflict`."""
    account = Account.objects.filter(pk=payment.account_id).first()
    if account is None:
        raise SchemaInvalid([Issue("account_id", "Invalid input: no such account")])
    try:
        _, new = take_payment(
            account=account,
            paid_nano=payment.amount_usd,
            source=payment.source,
            source_ref=payment.source_ref,
            by=command_actor("payments"),
        )
    except MovementConflict:
        told = "source and source_ref name another payment: its account or amount differs"
        raise Conflict(told) from None
    return new
