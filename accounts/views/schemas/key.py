"""API keys: the fields of bodies and objects."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from django.db.models import Exists, OuterRef, Subquery
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from accounts.caller import Caller
from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.models import ApiKey, LedgerEntry, WorkspaceBudget
from accounts.models.guardrail import DATA_REGIONS
from accounts.rates import FreeRequests
from accounts.scopes import NETWORKS_MAX, Scope, clean_networks
from accounts.services.budgets import BudgetStanding, read_budget_standings
from accounts.services.key_limits import KeyUsage
from accounts.services.keys import GRACE_S_MAX
from accounts.spending import LIMITED_WINDOW, WINDOW_WORDS
from accounts.views.schemas.fields import (
    ENFORCEMENT,
    Enforcement,
    Id,
    RateLimits,
    ResetInterval,
    Usd,
    UsdAmount,
    drop_repetitions,
    find_models,
    nano_or_none,
    resolve_rate_limits,
)
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject, format_optional_time, usd
from gateway.http.resources import ResourceObject
from gateway.limits.rules import describe_limits

_INTERVALS: Final = tuple(WINDOW_WORDS.values())
_RESET_OF_WINDOW: Final = {window: reset for reset, window in LIMITED_WINDOW.items()}
_SUFFIX_OF_WINDOW: Final = {"total": "", "day": "_daily", "week": "_weekly", "month": "_monthly"}
_RATE_LIMIT: Final = {
    "requests": -1,
    "interval": "10s",
    "note": "This field is deprecated and safe to ignore.",
}


def _future_moment(value: object) -> datetime:
    """ISO 8601 in UTC with seconds, `...:SSZ`; other zones and minute precision are refused."""
    wrong = PydanticCustomError("iso_datetime", "Invalid ISO datetime")
    if not isinstance(value, str) or not value.endswith("Z") or value.count(":") != 2:
        raise wrong
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise wrong from None
    if moment <= datetime.now(UTC):
        raise PydanticCustomError("in_the_past", "Invalid input: expected a moment in the future")
    return moment


def _refuse_string(value: object) -> None:
    if value is not None:
        raise PydanticCustomError(
            "no_string", "Invalid input: a key's string is made here and cannot be given"
        )


def _clean_networks(texts: list[str] | None) -> list[str] | None:
    try:
        return None if texts is None else clean_networks(texts)
    except ValueError:
        raise PydanticCustomError(
            "network", "Invalid input: expected addresses and networks such as 192.0.2.0/24"
        ) from None


Models = Annotated[
    Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1)]
    | None,
    AfterValidator(drop_repetitions),
]
_Networks = Annotated[
    Annotated[list[str], Field(min_length=1, max_length=NETWORKS_MAX)] | None,
    AfterValidator(_clean_networks),
]
_Name = Annotated[str, Field(min_length=1, max_length=100)]
Moment = Annotated[datetime, BeforeValidator(_future_moment)]
_HEDGE: Final = (
    "Ours. Holds for requests that do not say `provider.hedge`; null is as the workspace says."
)
_RESCUE: Final = _HEDGE.replace("hedge", "rescue")
_Label = Annotated[str, Field(description="The key, masked.")]


class _Settings(BaseModel):
    name: _Name
    limit: Usd | None = Field(None, description="USD; null for no limit.")
    limit_reset: ResetInterval | None = None
    limit_enforcement: Enforcement = Field("block", description=ENFORCEMENT)
    include_byok_in_limit: bool = False
    allowed_models: Models = Field(
        None, description="Known models that it may ask for, kept as canonical slugs; null for all."
    )
    allowed_ips: _Networks = Field(
        None, description="Addresses and networks that it may be used from; null for all."
    )
    rate_limits: RateLimits = None
    hedge: bool | None = Field(None, description=_HEDGE)
    rescue: bool | None = Field(None, description=_RESCUE)


class ExternalUser(ManagedBody):
    """Whom of the account's own users the key is for."""

    user: str = Field(min_length=1, max_length=256)
    api_key: Annotated[None, BeforeValidator(_refuse_string)] = Field(
        None, description="Keys are made here alone."
    )


class NewKey(ManagedBody, _Settings):
    """What a new key is made of."""

    expires_at: Moment | None = Field(
        None, description="UTC with seconds, `...:SSZ`; in the future."
    )
    creator_user_id: str | None = Field(None, description="A member of the account.")
    workspace_id: Id | None = Field(None, description="The default workspace if absent.")
    external: ExternalUser | None = None


class KeyChanges(ManagedChanges, _Settings):
    """What may change of a key; what is left out stays."""

    name: _Name = ""
    disabled: bool = False
    workspace_id: Id = Field(
        UUID(int=0), description="Moves the key; its string and spending stay."
    )


class KeyRotation(ManagedBody):
    """For how long the old string works beside the new one."""

    grace_seconds: int = Field(
        86_400,
        ge=0,
        le=GRACE_S_MAX,
        description="For how long the old string works beside the new one.",
    )


class _Spending(ResourceObject):
    limit: UsdAmount | None = Field(description="USD it may spend; null for no limit.")
    limit_remaining: UsdAmount | None = Field(description="USD left of the limit.")
    limit_reset: ResetInterval | None
    limit_enforcement: Enforcement = Field(description=ENFORCEMENT)
    include_byok_in_limit: bool
    usage: UsdAmount
    usage_daily: UsdAmount
    usage_weekly: UsdAmount
    usage_monthly: UsdAmount
    byok_usage: UsdAmount
    byok_usage_daily: UsdAmount
    byok_usage_weekly: UsdAmount
    byok_usage_monthly: UsdAmount


class _KeyIdentity(ResourceObject):
    hash: str = Field(description="SHA-256 of the key string: its public identifier.")
    name: str
    label: _Label
    disabled: bool


class KeyObject(_Spending, _KeyIdentity):
    """An inference key and what it spent in each UTC window. Its string is in none of its
    fields."""

    model_config = ConfigDict(title="Key")

    created_at: datetime
    updated_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None = Field(
        description="When its last call was booked; known some seconds later."
    )
    external_user: str | None = Field(description="`external.user` of its making.")
    allowed_models: list[str] | None
    allowed_ips: list[str] | None
    rate_limits: RateLimits
    hedge: bool | None = Field(description=_HEDGE)
    rescue: bool | None = Field(description=_RESCUE)
    app_id: int | None = Field(description="The app that it was made for by OAuth.")
    creator_user_id: str | None
    workspace_id: UUID | None


class CurrentKeyBudget(ResourceObject):
    """A limit that the key is held to."""

    scope: Literal[
        "workspace_default_member",
        "workspace_default_key",
        "member",
        "api_key",
        "workspace",
        "key_limit",
    ]
    limit_usd: UsdAmount
    spend_usd: UsdAmount
    remaining_usd: UsdAmount = Field(description="May be below zero.")
    enforcement: Enforcement = Field(description=ENFORCEMENT)
    reset_interval: ResetInterval | None
    resets_at: datetime | None
    include_byok: bool
    guardrail_id: UUID | None
    budget_id: UUID | None


class CurrentKeyRateLimit(ResourceObject):
    """Says nothing; kept for callers that read it."""

    requests: int
    interval: str
    note: str


class FreeModelRequests(ResourceObject):
    """Requests of the account to free variants today (UTC); -1 and -1 where there is no limit, and
    then none are counted."""

    limit: int = Field(ge=-1)
    used: int
    remaining: int = Field(ge=-1)


class CurrentKey(_Spending):
    """The key that asks."""

    label: _Label
    is_free_tier: bool = Field(description="True while the account has never bought credits.")
    is_management_key: bool
    is_provisioning_key: bool
    creator_user_id: str | None
    expires_at: datetime | None
    rate_limit: CurrentKeyRateLimit = Field(deprecated=True)
    workspace_id: UUID | None
    organization_id: UUID
    budgets: list[CurrentKeyBudget] = Field(
        description="All that apply to it, in the order in which they refuse."
    )
    effective_budget: CurrentKeyBudget | None = Field(
        description="The one with the least left of those that refuse."
    )
    allowed_data_regions: list[Literal["global", "europe", "us"]] = Field(
        description="Hosts that take requests of this key."
    )
    free_model_daily_requests: FreeModelRequests
    allowed_models: list[str] | None
    allowed_ips: list[str] | None
    rate_limits: RateLimits
    scopes: list[Scope] | None = Field(
        description="What a management key may do; null for everything."
    )
    managed_workspaces: list[UUID] | None = Field(
        description="The workspaces that a management key is for; null for the whole account."
    )


def read_key_changes(body: Mapping[str, Any]) -> JsonObject:
    """The columns to change and their values. Raises `SchemaInvalid`, and where there are none."""
    changes = KeyChanges.read_changes(body)
    if "limit" in changes:
        changes["limit_nano"] = nano_or_none(changes.pop("limit"))
    if changes.get("allowed_models"):
        changes["allowed_models"] = resolve_models(changes["allowed_models"])
    if changes.get("rate_limits") is not None:
        changes["rate_limits"] = resolve_rate_limits(changes["rate_limits"])
    return changes


def resolve_models(names: list[str] | None, *, field: str = "allowed_models") -> list[str] | None:
    """Canonical slugs of a key's models. Raises `SchemaInvalid` for an unknown one."""
    if not names:
        return None
    models, issues = find_models(field, names)
    if issues:
        raise SchemaInvalid(issues)
    return models


def serialize_key(key: ApiKey, usage: KeyUsage) -> JsonObject:
    """The JSON of a `KeyObject`."""
    return KeyObject.from_row(
        key,
        **_spending(key, usage),
        creator_user_id=key.creator.public_id if key.creator else None,
        rate_limits=describe_limits(key.rate_limits),
    )


def load_current_key(caller: Caller, free: FreeRequests, at: datetime) -> JsonObject:
    """The JSON of the `CurrentKey` that asks."""
    purchases = LedgerEntry.objects.filter(
        account=OuterRef("account"), kind=LedgerEntry.Kind.PURCHASE
    )
    budgets = WorkspaceBudget.objects.filter(workspace=OuterRef("workspace"))
    ids = {
        f"budget_{word}": Subquery(budgets.filter(interval=word).values("pk"))
        for word in _INTERVALS
    }
    rows: Any = ApiKey.objects.select_related("creator").annotate(
        has_bought=Exists(purchases), **ids
    )
    key = rows.get(pk=caller.key_id)
    budget_ids = {word: getattr(key, f"budget_{word}") for word in _INTERVALS}
    usage, standings = read_budget_standings(key, caller.budgets, budget_ids, at=at)
    refusing = [each for each in standings if each.is_enforced]
    tightest = min(refusing, key=lambda each: each.left_nano, default=None)
    return CurrentKey.from_row(
        key,
        **_spending(key, usage),
        is_free_tier=not key.has_bought,
        is_management_key=key.is_management,
        is_provisioning_key=key.is_management,
        creator_user_id=key.creator.public_id if key.creator else None,
        rate_limit=_RATE_LIMIT,
        rate_limits=describe_limits(key.rate_limits),
        organization_id=str(key.account_id),
        budgets=[_serialize_budget(each) for each in standings],
        effective_budget=_serialize_budget(tightest) if tightest else None,
        allowed_data_regions=[each for each in DATA_REGIONS if caller.admits_region(each)],
        free_model_daily_requests=free._asdict(),
    )


def _serialize_budget(standing: BudgetStanding) -> JsonObject:
    return CurrentKeyBudget.from_row(
        standing,
        limit_usd=usd(standing.limit_nano),
        spend_usd=usd(standing.spent_nano),
        remaining_usd=usd(standing.left_nano),
        enforcement="block" if standing.is_enforced else "warn",
        reset_interval=_RESET_OF_WINDOW[standing.window],
        resets_at=format_optional_time(standing.resets_at),
        include_byok=standing.counts_byok,
    )


def _spending(key: ApiKey, usage: KeyUsage) -> JsonObject:
    """Limit, what is left of it, and what each UTC window saw."""
    limit_nano, left = key.limit_nano, None
    if limit_nano is not None:
        left = usd(max(0, limit_nano - usage.counted_nano(key)))
    windows = _SUFFIX_OF_WINDOW.items()
    return {
        "limit": None if limit_nano is None else usd(limit_nano),
        "limit_remaining": left,
        **{f"usage{suffix}": usd(usage.spent[window]) for window, suffix in windows},
        **{f"byok_usage{suffix}": usd(usage.byok[window]) for window, suffix in windows},
    }
