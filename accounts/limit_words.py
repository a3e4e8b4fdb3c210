"""Fields by which other gateways limit keys and teams.

Unknown fields are ignored, but for these: who sends one believes that a limit holds from then on.
"""

import re
from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gateway.http.resources import Body, Changes


class _Limit(NamedTuple):
    """What a limit is called elsewhere and here, and where it is set if not in the same body."""

    words: str
    fields: str
    elsewhere: str


_SPENDING: Final = (
    "spending is limited by `limit` of a key, `limit_usd` of a guardrail and budgets of a workspace"
)
_BY_PERIOD: Final = " ".join(
    f"{period}_{what}"
    for period in ("hourly", "daily", "weekly", "monthly", "yearly", "total")
    for what in ("limit", "budget", "spend", "quota")
)
_GUARDRAIL: Final = "a guardrail limits this for the keys and members that it is assigned to"
_LIMITS: Final = (
    _Limit(
        "limit limit_usd max_budget soft_budget budget budget_limit budget_usd max_spend max_usd"
        f" spend_limit spending_limit credit_limit quota {_BY_PERIOD}",
        "limit limit_usd",
        _SPENDING,
    ),
    _Limit(
        "limit_reset reset_interval budget_duration budget_interval budget_period budget_reset"
        " limit_interval limit_period reset_period",
        "limit_reset reset_interval",
        _SPENDING,
    ),
    _Limit(
        "models allowed_models model_access model_allowlist model_whitelist",
        "allowed_models",
        _GUARDRAIL,
    ),
    _Limit("ignored_models blocked_models denied_models", "ignored_models", _GUARDRAIL),
    _Limit("allowed_providers providers provider_allowlist", "allowed_providers", _GUARDRAIL),
    _Limit("ignored_providers blocked_providers denied_providers", "ignored_providers", _GUARDRAIL),
    _Limit(
        "duration expires expires_in expires_after expiry ttl",
        "expires_at",
        "`expires_at` of a new key ends it",
    ),
    _Limit(
        "rpm rpd rps tpm tpd rpm_limit tpm_limit model_rpm_limit model_tpm_limit rate_limit"
        " rate_limits requests_per_second requests_per_minute requests_per_day tokens_per_minute"
        " tokens_per_day max_parallel_requests max_requests max_concurrency",
        "rate_limits",
        "`rate_limits` of a key or a workspace limits this",
    ),
)
# A name with one of these in it limits something, but for what our own objects say of a limit.
_BY_PART: Final = {
    **dict.fromkeys(("limit", "limits", "budget", "quota"), _LIMITS[0]),
    **dict.fromkeys(("rpm", "rps", "rpd", "tpm", "tpd"), _LIMITS[-1]),
}
_RESPONSE_FIELDS: Final = {
    "limit_remaining",
    "include_byok_in_limit",
    "include_byok_in_budgets",
    "effective_budget",
    "key_limit",
    "budget_id",
}
_WORD_BEGINS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BY_WORD: Final = {word: limit for limit in _LIMITS for word in limit.words.split()}


def describe_unknown_limit(body: Mapping[str, Any], known: Container[str]) -> str | None:
    """What is wrong with the first field that would limit something and is not `known`."""
    for name, value in body.items():
        if name in known or value is None:
            continue
        word = _WORD_BEGINS.sub("_", name).lower()
        limit = _BY_WORD.get(word)
        if limit is None and word not in _RESPONSE_FIELDS:
            parts = (_BY_PART[part] for part in word.split("_") if part in _BY_PART)
            limit = next(parts, None)
        if limit is None:
            continue
        field = next((each for each in limit.fields.split() if each in known), None)
        hint = limit.elsewhere if field is None else f"use `{field}`"
        return f'Unrecognized key: "{name}"; {hint}'
    return None


class ManagedBody(Body):
    """A body whose unknown fields are ignored, unless they look like limits."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_limits(cls, body: Any) -> Any:
        text = describe_unknown_limit(body, cls.model_fields) if isinstance(body, dict) else None
        if text is not None:
            raise PydanticCustomError("unknown_limit", "{text}", {"text": text})
        return body


class ManagedChanges(ManagedBody, Changes):
    """Changes of a resource, whose unknown fields must not look like limits either."""
