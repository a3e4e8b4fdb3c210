"""GET /key: the key that asks, its limit and what it spent."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import required_caller
from accounts.models import ApiKey, LedgerEntry
from accounts.services.keys import usage_nano
from accounts.windows import LIMITED_WINDOW
from gateway.db import Lane, run
from gateway.http.jsonio import usd
from gateway.http.responses import json_response
from gateway.http.times import iso_or_none
from gateway.http.viewset import LeanViewSet

_RATE_LIMIT = {
    "requests": -1,
    "interval": "10s",
    "note": "This field is deprecated and safe to ignore.",
}


class KeyViewSet(LeanViewSet):
    """Any key may ask about itself."""

    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = required_caller(request)
        self.beside = {"user_id": caller.creator_id}
        data = run(Lane.READ, lambda: key_object(caller.key_id, datetime.now(UTC)))
        return json_response({"data": data})


def key_object(key_id: int, at: datetime) -> dict[str, Any]:
    """The management reference's 9.2, every field present."""
    key = ApiKey.objects.select_related("creator").get(pk=key_id)
    spent_nano = usage_nano(key=key, at=at)
    limit_nano, left = key.limit_nano, None
    if limit_nano is not None:
        left = usd(max(0, limit_nano - spent_nano[LIMITED_WINDOW[key.limit_reset]]))
    bought = LedgerEntry.objects.filter(
        account_id=key.account_id, kind=LedgerEntry.Kind.PURCHASE
    ).exists()
    return {
        "label": key.label,
        "limit": None if limit_nano is None else usd(limit_nano),
        "limit_remaining": left,
        "limit_reset": key.limit_reset,
        "include_byok_in_limit": key.include_byok_in_limit,
        "usage": usd(spent_nano["total"]),
        "usage_daily": usd(spent_nano["day"]),
        "usage_weekly": usd(spent_nano["week"]),
        "usage_monthly": usd(spent_nano["month"]),
        "byok_usage": usd(0),
        "byok_usage_daily": usd(0),
        "byok_usage_weekly": usd(0),
        "byok_usage_monthly": usd(0),
        "is_free_tier": not bought,
        "is_management_key": key.is_management,
        "is_provisioning_key": key.is_management,
        "creator_user_id": key.creator.public_id if key.creator else None,
        "expires_at": iso_or_none(key.expires_at),
        "rate_limit": _RATE_LIMIT,
    }
