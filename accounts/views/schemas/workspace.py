"""Workspaces, their members and their budgets: the fields of bodies and objects."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.models import WorkspaceBudget
from accounts.models.account import QUEUE_WEIGHT_MAX, SAMPLING_RATE_MIN, ServerTool
from accounts.money import usd_to_nano
from accounts.ports import higher_apps
from accounts.services.workspace_budgets import INTERVALS
from accounts.services.workspaces import SLUG_CHARS_MAX, SLUG_PATTERN
from accounts.views.schemas import member_keys
from accounts.views.schemas.fields import (
    ENFORCEMENT,
    Enforcement,
    KeyHash,
    PositiveUsd,
    RateLimits,
    ResetInterval,
    UsdAmount,
    UserId,
    drop_repetitions,
    nano_or_none,
    resolve_rate_limits,
)
from gateway.end_users import hash_user
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject, usd
from gateway.http.resources import ResourceObject
from gateway.http.tags import NAME_CHARS_MAX, VALUE_CHARS_MAX
from gateway.http.validation import Issue, shorten
from gateway.limits.rules import describe_limits

# A list of keys is looked up in one query.
LOGGED_KEYS_MAX: Final = 1000
# Every process reads them with each key of the workspace.
END_USER_LIMITS_MAX: Final = 200
# Columns of models are this wide; no catalogue holds a longer name.
_MODEL_CHARS_MAX: Final = 200
_HASH: Final = re.compile(r"[0-9a-f]{64}")
# What tags of requests can be: no other one would ever be spent for.
TAG_BUDGETS_MAX: Final = 32
TAG_BUDGET_PATTERN: Final = rf"^[^=\x00]{{1,{NAME_CHARS_MAX}}}=[^\x00]{{1,{VALUE_CHARS_MAX}}}$"
# Columns that hold "" where the API says null.
_MODEL_FIELDS: Final = ("default_text_model", "default_image_model")


def _key_reference(value: object) -> int | str:
    """A key's number, or its hash."""
    if isinstance(value, str) and _HASH.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    expected = "int" if isinstance(value, float) else "number"
    raise PydanticCustomError("wrong_kind", "Wrong kind", {"expected": expected})


def _none_if_empty(names: list[str] | None) -> list[str] | None:
    return drop_repetitions(names) or None


_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Slug = Annotated[str, Field(min_length=1, max_length=SLUG_CHARS_MAX, pattern=SLUG_PATTERN)]
_KeyReferences = Annotated[
    list[Annotated[int | str, BeforeValidator(_key_reference)]],
    Field(max_length=LOGGED_KEYS_MAX),
]
_Role = Literal["admin", "member", "viewer"]


class NewEndUserLimit(ManagedBody):
    """The limit of one end user. One of the two names him."""

    user: str | None = Field(
        None,
        min_length=1,
        description="The id as requests give it in `user` or `metadata.user_id`.",
        json_schema_extra={"writeOnly": True},
    )
    user_hash: KeyHash | None = Field(None, description="The same as history tells it.")
    limit_usd: PositiveUsd | None = Field(description="USD; null limits nothing.")


class NewEndUserBudget(ManagedBody):
    """What each end user of a workspace may spend in an interval (UTC), from when it is set."""

    reset_interval: ResetInterval
    limit_usd: PositiveUsd | None = Field(
        None, description="Of everybody without an override; null limits nothing."
    )
    overrides: Annotated[list[NewEndUserLimit], Field(max_length=END_USER_LIMITS_MAX)] = []


class NewTagBudget(ManagedBody):
    """What requests with a tag may spend in an interval (UTC), from when it is set."""

    tag: Annotated[str, Field(pattern=TAG_BUDGET_PATTERN)] = Field(
        description="`team=blue`; with `team=*` each value apart that has none of its own."
    )
    reset_interval: ResetInterval
    limit_usd: PositiveUsd


class _Settings(BaseModel):
    """What may be set, in the order in which it is refused."""

    name: _Name
    slug: _Slug = Field(description="Once per account.")
    description: Annotated[str, Field(max_length=500)] | None = None
    default_text_model: str | None = Field(
        None, description="Serves requests that name no model; a known one."
    )
    default_image_model: str | None = Field(
        None, description="Serves image requests that name no model; a known one."
    )
    default_provider_sort: Literal["price", "throughput", "latency", "exacto"] | None = None
    disabled_server_tools: Annotated[
        list[ServerTool] | None,
        AfterValidator(_none_if_empty),
        Field(description="Requests that name one are refused. `[]` is null."),
    ] = None
    io_logging_api_key_ids: _KeyReferences | None = Field(
        None, description="Numbers or hashes of keys of this workspace; null for all."
    )
    io_logging_sampling_rate: Annotated[float, Field(ge=SAMPLING_RATE_MIN, le=1)] = Field(
        1, description="Share of the requests that are logged."
    )
    is_data_discount_logging_enabled: bool = False
    is_observability_broadcast_enabled: bool = False
    is_observability_io_logging_enabled: bool = Field(
        False, description="Prompts and answers are kept."
    )
    rate_limits: RateLimits = None
    hedge: bool = Field(
        False, description="Ours. Holds for requests that do not say `provider.hedge`."
    )
    rescue: bool = Field(
        False, description="Ours. Holds for requests that do not say `provider.rescue`."
    )
    response_cache: bool = Field(
        False,
        description="Ours. Requests that do not say otherwise ask for the response cache, whose "
        "answers all keys of the workspace share, whatever the order of properties.",
    )
    tag_budgets: Annotated[list[NewTagBudget], Field(max_length=TAG_BUDGETS_MAX)] | None = Field(
        None, description="Ours. Requests without such a tag are not held to it."
    )
    end_user_budget: NewEndUserBudget | None = Field(
        None, description="Ours. Requests without an end user are not held to it."
    )
    member_key_limits: member_keys.NewMemberKeyLimits | None = Field(
        None, description="Ours. Of keys that members make from then on; leads are not held to it."
    )


class NewWorkspace(ManagedBody, _Settings):
    """What a new workspace is made of."""


class WorkspaceChanges(ManagedChanges, _Settings):
    """What may change of a workspace; what is left out stays."""

    name: _Name = ""
    slug: _Slug = Field("", description="Once per account.")


class _Identified(ResourceObject):
    id: UUID


class EndUserLimit(ResourceObject):
    """The limit of one end user, who is named by the hash of his id."""

    user_hash: KeyHash
    limit_usd: UsdAmount | None = Field(description="Null limits nothing.")


class EndUserBudget(ResourceObject):
    """What each end user of a workspace may spend in an interval (UTC)."""

    reset_interval: ResetInterval
    limit_usd: UsdAmount | None = Field(description="Of everybody without an override.")
    overrides: list[EndUserLimit]


class TagBudget(ResourceObject):
    """What requests with a tag may spend in an interval (UTC)."""

    tag: str
    reset_interval: ResetInterval
    limit_usd: UsdAmount


class WorkspaceObject(_Settings, _Identified):
    """A team of the account: its keys, budgets and settings."""

    model_config = ConfigDict(title="Workspace")

    io_logging_api_key_ids: list[int] | None = Field(  # type: ignore[assignment]  # Hashes become numbers.
        description="Numbers of the keys whose requests are logged; null for all."
    )
    default_guardrail_id: UUID = Field(description="The same for the workspace's life.")
    include_byok_in_budgets: bool
    queue_weight: Annotated[int, Field(ge=1, le=QUEUE_WEIGHT_MAX)] = Field(
        description="Ours. How often it is its turn in front of a full endpoint, beside others; "
        "operators set it."
    )
    tag_budgets: list[TagBudget] | None  # type: ignore[assignment]  # Amounts are told as such.
    end_user_budget: EndUserBudget | None  # type: ignore[assignment]  # Answers name nobody.
    member_key_limits: member_keys.MemberKeyLimits | None  # type: ignore[assignment]  # As above.
    created_at: datetime
    created_by: UserId | None
    updated_at: datetime | None = Field(description="Null until the first change.")


class WorkspaceMember(ResourceObject):
    """Who belongs to a workspace."""

    id: UUID
    workspace_id: UUID
    user_id: str
    role: _Role
    created_at: datetime


class WorkspaceUserIds(ManagedBody):
    """Members of the account."""

    user_ids: Annotated[
        list[str], Field(min_length=1, max_length=100), AfterValidator(drop_repetitions)
    ]


_LIMIT: Final = "USD. Budgets of wider intervals must be larger."


class NewWorkspaceBudget(ManagedBody):
    """What the keys of a workspace may spend together in an interval."""

    model_config = ConfigDict(title="WorkspaceBudgetWanted")

    limit_usd: PositiveUsd = Field(description=_LIMIT)
    enforcement: Enforcement = Field("block", description=ENFORCEMENT)
    include_byok_in_budgets: bool | None = Field(
        None, description="For all budgets of the workspace; left out, it stays as it is."
    )


class WorkspaceBudgetObject(ResourceObject):
    """What the keys of a workspace may spend together in an interval."""

    model_config = ConfigDict(title="WorkspaceBudget")

    id: UUID
    workspace_id: UUID
    limit_usd: PositiveUsd = Field(description=_LIMIT)
    enforcement: Enforcement = Field(description=ENFORCEMENT)
    reset_interval: ResetInterval | None = Field(description="Null for the lifetime.")
    created_at: datetime
    updated_at: datetime


def read_new_workspace(body: Mapping[str, Any]) -> JsonObject:
    """The columns of a new workspace. Raises `SchemaInvalid`."""
    return _columns(NewWorkspace.read(body).model_dump())


def read_workspace_changes(body: Mapping[str, Any]) -> JsonObject:
    """The columns to change and their values. Raises `SchemaInvalid`, and where there are none."""
    return _columns(WorkspaceChanges.read_changes(body))


def _columns(fields: JsonObject) -> JsonObject:
    """The given fields as columns. Raises `SchemaInvalid` for unknown models and a tag's second
    budget of an interval."""
    models = {name: fields[name] for name in _MODEL_FIELDS if name in fields}
    unknown = [
        Issue(name, f"{shorten(model)} is not a valid model ID")
        for name, model in models.items()
        if model is not None
        and not (0 < len(model) <= _MODEL_CHARS_MAX and higher_apps().is_known_model(model))
    ]
    if unknown:
        raise SchemaInvalid(unknown)
    if fields.get("rate_limits") is not None:
        fields["rate_limits"] = resolve_rate_limits(fields["rate_limits"])
    if "member_key_limits" in fields:
        fields["member_key_limits"] = member_keys.read_limits(fields["member_key_limits"])
    if fields.get("tag_budgets") is not None:
        places = [(each["tag"], each["reset_interval"]) for each in fields["tag_budgets"]]
        again = [index for index, place in enumerate(places) if place in places[:index]]
        if again:
            text = "The tag has a budget of this interval already"
            raise SchemaInvalid([Issue(f"tag_budgets.{index}", text) for index in again])
        fields["tag_budgets"] = [
            {
                "tag": each["tag"],
                "interval": each["reset_interval"],
                "limit_nano": usd_to_nano(each["limit_usd"]),
            }
            for each in fields["tag_budgets"]
        ] or None
    return fields | {name: model or "" for name, model in models.items()}


def hash_end_users(columns: JsonObject, account_id: UUID) -> JsonObject:
    """The columns with the budget of end users as its own has it; of one who is named twice the
    last limit counts. Raises `SchemaInvalid`."""
    budget = columns.get("end_user_budget")
    if budget is None:
        return columns
    limits: dict[str, int | None] = {}
    for index, each in enumerate(budget["overrides"]):
        user, user_hash = each["user"], each["user_hash"]
        if (user is None) == (user_hash is None):
            path = f"end_user_budget.overrides.{index}"
            raise SchemaInvalid([Issue(path, "Invalid input: expected user or user_hash")])
        limits[user_hash or hash_user(account_id, user)] = nano_or_none(each["limit_usd"])
    stored = {
        "interval": budget["reset_interval"],
        "limit_nano": nano_or_none(budget["limit_usd"]),
        "limits": limits,
    }
    return columns | {"end_user_budget": stored}


def _show_end_user_budget(stored: JsonObject | None) -> JsonObject | None:
    if stored is None:
        return None
    return {
        "reset_interval": stored["interval"],
        "limit_usd": _usd_or_none(stored["limit_nano"]),
        "overrides": [
            {"user_hash": user_hash, "limit_usd": _usd_or_none(limit_nano)}
            for user_hash, limit_nano in stored["limits"].items()
        ],
    }


def show_tag_budget(stored: JsonObject) -> JsonObject:
    interval, limit_usd = stored["interval"], usd(stored["limit_nano"])
    return {"tag": stored["tag"], "reset_interval": interval, "limit_usd": limit_usd}


def _usd_or_none(amount_nano: int | None) -> Any:
    return None if amount_nano is None else usd(amount_nano)


def read_budget(body: Mapping[str, Any]) -> JsonObject:
    """What `set_budget` takes of a body. Raises `SchemaInvalid`."""
    budget = NewWorkspaceBudget.read(body)
    return {
        "limit_nano": usd_to_nano(budget.limit_usd),
        "enforcement": budget.enforcement,
        "include_byok": budget.include_byok_in_budgets,
    }


def read_interval(word: str) -> str:
    """The interval that a path names. Raises `SchemaInvalid`."""
    if word not in INTERVALS:
        words = "|".join(f'"{each}"' for each in reversed(INTERVALS))
        raise SchemaInvalid([Issue("interval", f"Invalid option: expected one of {words}")])
    return word


def serialize_workspace(row: Any) -> JsonObject:
    """The JSON of a `WorkspaceObject`, of a row with its `creator_public_id`."""
    rate = row.io_logging_sampling_rate
    return WorkspaceObject.from_row(
        row,
        default_text_model=row.default_text_model or None,
        default_image_model=row.default_image_model or None,
        disabled_server_tools=row.disabled_server_tools or None,
        # 1 rather than 1.0.
        io_logging_sampling_rate=int(rate) if rate == int(rate) else rate,
        created_by=row.creator_public_id,
        rate_limits=describe_limits(row.rate_limits),
        end_user_budget=_show_end_user_budget(row.end_user_budget),
        member_key_limits=member_keys.show_limits(row.member_key_limits),
        tag_budgets=row.tag_budgets and [show_tag_budget(each) for each in row.tag_budgets],
    )


def serialize_budget(row: WorkspaceBudget) -> JsonObject:
    """The JSON of a `WorkspaceBudgetObject`."""
    is_lifetime = row.interval == WorkspaceBudget.Interval.LIFETIME
    return WorkspaceBudgetObject.from_row(
        row,
        limit_usd=usd(row.limit_nano),
        reset_interval=None if is_lifetime else row.interval,
    )
