"""The body of a workspace's budget (management reference 5.8)."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, ValidationError

from accounts.limit_words import ManagedBody
from accounts.money import usd_to_nano
from accounts.services.workspace_budgets import INTERVALS
from accounts.views.schemas.fields import PositiveUsd
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import UNDEFINED, Issue, list_issues

_Limit = PositiveUsd


class _Budget(ManagedBody):
    model_config = ConfigDict(strict=True, validate_default=True)

    limit_usd: _Limit = UNDEFINED  # type: ignore[assignment]  # So that a missing one is told in the words of a wrong one.
    include_byok_in_budgets: bool | None = None


def read_budget(body: Mapping[str, Any]) -> tuple[int, bool | None]:
    """The limit in nano-USD, and whether BYOK counts (None: not said). Raises `SchemaInvalid`."""
    try:
        said = _Budget.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None
    return usd_to_nano(said.limit_usd), said.include_byok_in_budgets


def read_interval(word: str) -> str:
    """The interval that a path names. Raises `SchemaInvalid`."""
    if word not in INTERVALS:
        words = "|".join(f'"{each}"' for each in reversed(INTERVALS))
        raise SchemaInvalid([Issue("interval", f"Invalid option: expected one of {words}")])
    return word
