"""Keys as the API shows them (management reference 9.2, 9.3)."""

from datetime import datetime
from typing import Any

from accounts.models import ApiKey, LedgerEntry
from accounts.services.key_limits import Usage, usage_of
from gateway.http.jsonio import usd
from gateway.http.times import iso, iso_or_none

_RATE_LIMIT = {
    "requests": -1,
    "interval": "10s",
    "note": "This field is deprecated and safe to ignore.",
}

_WORDS = {"total": "", "day": "_daily", "week": "_weekly", "month": "_monthly"}


def current_key_object(key_id: int, at: datetime) -> dict[str, Any]:
    """GET /key: the key that asks, every field present."""
    key = ApiKey.objects.select_related("creator").get(pk=key_id)
    bought = LedgerEntry.objects.filter(
        account_id=key.account_id, kind=LedgerEntry.Kind.PURCHASE
    ).exists()
    return {
        **_spending(key, usage_of(key=key, at=at)),
        "label": key.label,
        "is_free_tier": not bought,
        "is_management_key": key.is_management,
        "is_provisioning_key": key.is_management,
        "creator_user_id": key.creator.public_id if key.creator else None,
        "expires_at": iso_or_none(key.expires_at),
        "rate_limit": _RATE_LIMIT,
    }


def key_object(key: ApiKey, usage: Usage) -> dict[str, Any]:
    """A key of /keys and what it spent in each window; its string is in none of its fields."""
    return {
        "hash": key.hash,
        "name": key.name,
        "label": key.label,
        "disabled": key.disabled,
        **_spending(key, usage),
        "created_at": iso(key.created_at),
        "updated_at": iso_or_none(key.updated_at),
        "expires_at": iso_or_none(key.expires_at),
        "creator_user_id": key.creator.public_id if key.creator else None,
        "workspace_id": str(key.workspace_id) if key.workspace_id else None,
    }


def _spending(key: ApiKey, usage: Usage) -> dict[str, Any]:
    """Limit, what is left of it, and what each UTC window saw."""
    limit_nano, left = key.limit_nano, None
    if limit_nano is not None:
        left = usd(max(0, limit_nano - usage.counted_nano(key)))
    return {
        "limit": None if limit_nano is None else usd(limit_nano),
        "limit_remaining": left,
        "limit_reset": key.limit_reset,
        "include_byok_in_limit": key.include_byok_in_limit,
        **{f"usage{word}": usd(usage.spent[window]) for window, word in _WORDS.items()},
        **{f"byok_usage{word}": usd(usage.byok[window]) for window, word in _WORDS.items()},
    }
