"""Kinds of fields that several resources have."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from accounts.money import usd_to_nano
from accounts.ports import higher_apps
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, shorten
from gateway.limits.rules import LIMITS_MAX, RateLimit, dump_limits
from gateway.limits.weights import is_pattern, merge_weights


def _number(value: object) -> Any:
    """JSON numbers only: pydantic would read a decimal from a string or a boolean."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    raise PydanticCustomError("float_type", "Input should be a valid number")


def _check_nano(value: Decimal) -> Decimal:
    try:
        usd_to_nano(value)
    except ValueError:
        raise PydanticCustomError(
            "usd", "Invalid input: expected at most 9 decimal places and a billion USD"
        ) from None
    return value


def nano_or_none(usd: Decimal | None) -> int | None:
    """An amount of USD in nano-USD."""
    return None if usd is None else usd_to_nano(usd)


def drop_repetitions(names: list[str] | None) -> list[str] | None:
    """The list without its repetitions."""
    return None if names is None else list(dict.fromkeys(names))


_HASH_PATTERN: Final = r"^[0-9a-f]{64}$"
_HASH: Final = re.compile(_HASH_PATTERN[1:-1])


def _check_hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise PydanticCustomError(
            "string_pattern_mismatch",
            "Invalid string: must match pattern /{pattern}/",
            {"pattern": _HASH_PATTERN},
        )
    return text


def find_models(field: str, names: Sequence[str]) -> tuple[list[str], list[Issue]]:
    """The canonical slugs of the models named in a field, each once; what is wrong with others."""
    known = higher_apps().find_model_slugs(names)
    issues = [
        Issue(f"{field}.{index}", f"{shorten(name)} is not a valid model ID")
        for index, name in enumerate(names)
        if name not in known
    ]
    return list(dict.fromkeys(known.get(name, name) for name in names)), issues


def resolve_rate_limits(limits: Sequence[JsonObject] | None) -> list[JsonObject] | None:
    """Checked limits as columns keep them, models by canonical slug. Raises `SchemaInvalid` for
    models and providers that nobody knows."""
    columns = dump_limits(RateLimit.model_validate(each) for each in limits or ())
    issues: list[Issue] = []
    for index, limit in enumerate(columns or ()):
        if weights := limit.get("weights"):
            limit["weights"], unknown = resolve_weights(f"rate_limits.{index}.weights", weights)
            issues += unknown
        scope, place = limit.get("scope", {}), f"rate_limits.{index}.scope"
        if (model := scope.get("model")) is not None:
            slugs, unknown = find_models(place, [model])
            scope["model"] = slugs[0]
            issues += [Issue(f"{place}.model", each.message) for each in unknown]
        if (provider := scope.get("provider")) is not None:
            slug = higher_apps().find_provider_slugs([provider]).get(provider)
            scope["provider"] = slug
            if slug is None:
                text = f"{shorten(provider)} is not a known provider"
                issues.append(Issue(f"{place}.provider", text))
    if issues:
        raise SchemaInvalid(issues)
    return columns


def resolve_weights(place: str, weights: dict[str, int]) -> tuple[dict[str, int], list[Issue]]:
    """The weights by canonical slug, patterns as they are. What is wrong with names of no model."""
    names = [name for name in weights if not is_pattern(name)]
    slugs = higher_apps().find_model_slugs(names) if names else {}
    issues = [
        Issue(f"{place}.{name}", f"{shorten(name)} is not a valid model ID")
        for name in names
        if name not in slugs
    ]
    pairs = [(slugs.get(name, name), weight) for name, weight in weights.items()]
    return merge_weights(pairs), issues


# What `nano_of` refuses beyond.
_USD_MAX: Final = 1_000_000_000
# An amount of USD in a body: a JSON number that is whole in nano-USD.
Usd = Annotated[
    Decimal,
    BeforeValidator(_number),
    Field(ge=0),
    AfterValidator(_check_nano),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": _USD_MAX}),
]
PositiveUsd = Annotated[
    Decimal,
    BeforeValidator(_number),
    Field(gt=0),
    AfterValidator(_check_nano),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": _USD_MAX}),
]
# An amount of an answer.
UsdAmount = Annotated[
    Decimal,
    WithJsonSchema({"type": "number", "description": "USD, at most 9 decimal places."}),
]
Enforcement = Literal["block", "warn"]
ENFORCEMENT: Final = (
    "`block` refuses requests that would exceed it; `warn` refuses none and only leads to events."
)
ResetInterval = Literal["daily", "weekly", "monthly"]
# Strict models take ids as text as well.
Id = Annotated[UUID, Field(strict=False)]
RateLimits = Annotated[
    Annotated[list[RateLimit], Field(max_length=LIMITS_MAX)] | None,
    Field(description="How much may be asked for; null for no limits."),
]
# Of a key's string: SHA-256 in hexadecimal.
KeyHash = Annotated[
    str, AfterValidator(_check_hash), Field(json_schema_extra={"pattern": _HASH_PATTERN})
]
UserId = Annotated[str, Field(description="A user's id.")]
