"""Keys as the API shows them (management reference 9.2, 9.3)."""

from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Subquery

from accounts.caller import Caller
from accounts.models import ApiKey, LedgerEntry, WorkspaceBudget
from accounts.rates import FreeRequests
from accounts.regions import list_allowed_regions
from accounts.services.budgets import BudgetStanding, read_budget_standings
from accounts.services.key_limits import KeyUsage
from accounts.spending import WINDOW_WORDS
from accounts.windows import LIMITED_WINDOW
from gateway.http.jsonio import format_optional_time, format_time, usd

_RATE_LIMIT = {
    "requests": -1,
    "interval": "10s",
    "note": "This field is deprecated and safe to ignore.",
}

INTERVALS = tuple(WINDOW_WORDS.values())
LIMITED_RESET = {window: reset for reset, window in LIMITED_WINDOW.items()}
_WORDS = {"total": "", "day": "_daily", "week": "_weekly", "month": "_monthly"}


def current_key_object(caller: Caller, free: FreeRequests, at: datetime) -> dict[str, Any]:
    """GET /key: the key that asks, every field present."""
    bought = LedgerEntry.objects.filter(account=OuterRef("account"), kind=LedgerEntry.Kind.PURCHASE)
    mine = WorkspaceBudget.objects.filter(workspace=OuterRef("workspace"))
    ids = {
        f"budget_{word}": Subquery(mine.filter(interval=word).values("pk")) for word in INTERVALS
    }
    rows: Any = ApiKey.objects.select_related("creator").annotate(has_bought=Exists(bought), **ids)
    key = rows.get(pk=caller.key_id)
    budget_ids = {word: getattr(key, f"budget_{word}") for word in INTERVALS}
    usage, standings = read_budget_standings(key, caller.budgets, budget_ids, at=at)
    tightest = min(standings, key=lambda each: each.left_nano, default=None)
    return {
        **_spending(key, usage),
        "label": key.label,
        "is_free_tier": not key.has_bought,
        "is_management_key": key.is_management,
        "is_provisioning_key": key.is_management,
        "creator_user_id": key.creator.public_id if key.creator else None,
        "expires_at": format_optional_time(key.expires_at),
        "rate_limit": _RATE_LIMIT,
        "workspace_id": str(key.workspace_id) if key.workspace_id else None,
        "organization_id": str(key.account_id),
        "budgets": [_budget(each) for each in standings],
        "effective_budget": _budget(tightest) if tightest else None,
        "allowed_data_regions": list_allowed_regions(caller),
        "free_model_daily_requests": free._asdict(),
    }


def _budget(standing: BudgetStanding) -> dict[str, Any]:
    """A budget of GET /key."""
    interval = LIMITED_RESET[standing.window]
    return {
        "scope": standing.scope,
        "limit_usd": usd(standing.limit_nano),
        "spend_usd": usd(standing.spent_nano),
        "remaining_usd": usd(standing.left_nano),
        "reset_interval": interval,
        "resets_at": format_optional_time(standing.resets_at),
        "include_byok": standing.counts_byok,
        "guardrail_id": str(standing.guardrail_id) if standing.guardrail_id else None,
        "budget_id": str(standing.budget_id) if standing.budget_id else None,
    }


def key_object(key: ApiKey, usage: KeyUsage) -> dict[str, Any]:
    """A key of /keys and what it spent in each window; its string is in none of its fields."""
    return {
        "hash": key.hash,
        "name": key.name,
        "label": key.label,
        "disabled": key.disabled,
        **_spending(key, usage),
        "created_at": format_time(key.created_at),
        "updated_at": format_optional_time(key.updated_at),
        "expires_at": format_optional_time(key.expires_at),
        "last_used_at": format_optional_time(key.last_used_at),
        "external_user": key.external_user,
        "creator_user_id": key.creator.public_id if key.creator else None,
        "workspace_id": str(key.workspace_id) if key.workspace_id else None,
    }


def _spending(key: ApiKey, usage: KeyUsage) -> dict[str, Any]:
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
