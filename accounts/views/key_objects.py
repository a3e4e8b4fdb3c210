"""Keys as the API shows them (management reference 9.2, 9.3)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from accounts.models import ApiKey, LedgerEntry
from accounts.services.key_limits import usage_nano
from accounts.windows import LIMITED_WINDOW
from gateway.http.jsonio import usd
from gateway.http.times import iso, iso_or_none

_RATE_LIMIT = {
    "requests": -1,
    "interval": "10s",
    "note": "This field is deprecated and safe to ignore.",
}


def current_key_object(key_id: int, at: datetime) -> dict[str, Any]:
    """GET /key: the key that asks, every field present."""
    key = ApiKey.objects.select_related("creator").get(pk=key_id)
    bought = LedgerEntry.objects.filter(
        account_id=key.account_id, kind=LedgerEntry.Kind.PURCHASE
    ).exists()
    return {
        **_spending(key, usage_nano(key=key, at=at)),
        "label": key.label,
        "is_free_tier": not bought,
        "is_management_key": key.is_management,
        "is_provisioning_key": key.is_management,
        "creator_user_id": key.creator.public_id if key.creator else None,
        "expires_at": iso_or_none(key.expires_at),
        "rate_limit": _RATE_LIMIT,
    }


def key_object(key: ApiKey, spent_nano: Mapping[str, int]) -> dict[str, Any]:
    """A key of /keys and what it spent in each window; its string is in none of its fields."""
    return {
        "hash": key.hash,
        "name": key.name,
        "label": key.label,
        "disabled": key.disabled,
        **_spending(key, spent_nano),
        "created_at": iso(key.created_at),
        "updated_at": iso_or_none(key.updated_at),
        "expires_at": iso_or_none(key.expires_at),
        "creator_user_id": key.creator.public_id if key.creator else None,
        "workspace_id": str(key.workspace_id) if key.workspace_id else None,
    }


def _spending(key: ApiKey, spent_nano: Mapping[str, int]) -> dict[str, Any]:
    """Limit, what is left of it, and what each UTC window saw."""
    limit_nano, left = key.limit_nano, None
    if limit_nano is not None:
        left = usd(max(0, limit_nano - spent_nano[LIMITED_WINDOW[key.limit_reset]]))
    return {
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
    }
