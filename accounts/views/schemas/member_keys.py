"""What a workspace gives keys of members, and allows them at most: the fields of its body."""

from typing import Any

from pydantic import BaseModel, Field

from accounts.limit_words import ManagedBody
from accounts.views.schemas.fields import (
    RateLimits,
    ResetInterval,
    Usd,
    UsdAmount,
    nano_or_none,
    resolve_rate_limits,
)
from accounts.views.schemas.key import Models, resolve_models
from gateway.http.jsonio import JsonObject, usd
from gateway.http.resources import ResourceObject
from gateway.limits.rules import describe_limits


class _Limits(BaseModel):
    limit_reset: ResetInterval | None = None
    allowed_models: Models = Field(
        None, description="Known models, kept as canonical slugs; null for all."
    )
    rate_limits: RateLimits = None


class NewMemberKeyLimits(ManagedBody, _Limits):
    """What keys get that members make for themselves, and have at most. Null limits nothing."""

    limit: Usd | None = Field(None, description="USD of each key; null for no limit.")


class MemberKeyLimits(_Limits, ResourceObject):
    """What keys get that members make for themselves, and have at most."""

    limit: UsdAmount | None = Field(description="USD of each key; null for no limit.")


def read_limits(fields: JsonObject | None) -> JsonObject | None:
    """The column of a checked body; None where it limits nothing. Raises `SchemaInvalid`."""
    if fields is None:
        return None
    limit_nano = nano_or_none(fields["limit"])
    column: dict[str, Any] = {
        "limit_nano": limit_nano,
        "limit_reset": None if limit_nano is None else fields["limit_reset"],
        "allowed_models": resolve_models(
            fields["allowed_models"], field="member_key_limits.allowed_models"
        ),
        "rate_limits": resolve_rate_limits(fields["rate_limits"]),
    }
    return None if all(each is None for each in column.values()) else column


def show_limits(column: JsonObject | None) -> JsonObject | None:
    """The JSON of `MemberKeyLimits`."""
    if column is None:
        return None
    limit_nano = column["limit_nano"]
    return {
        "limit": None if limit_nano is None else usd(limit_nano),
        "limit_reset": column["limit_reset"],
        "allowed_models": column["allowed_models"],
        "rate_limits": describe_limits(column["rate_limits"]),
    }
