"""What the ledger must know of the budgets of guardrails (management reference 8.4, 12.3).

Whoever changes one calls `outdate_limits` first: from the commit on, no hold is placed by who knows
older budgets. It locks the account's row, so what is read after it stays true until then.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, Value

from accounts.models import ApiKey, Guardrail, GuardrailKey, GuardrailMember, Hold, SpendCounter
from accounts.services.guardrail_reading import scope_of
from accounts.services.spend_scopes import adopt_holds
from accounts.spending import SpendScope, guardrail_scope_id

# The two kinds of holders, in a query for both.
_KEY, _USER = 0, 1


def has_holds(account: str) -> Any:
    """In a query, whether requests of the account behind this lookup are under way."""
    return Exists(Hold.objects.filter(account=OuterRef(account)))


def begin_budget(guardrail: Any) -> None:
    """Let requests under way count against the guardrail's budget, if it has one."""
    if guardrail.limit_nano is not None and guardrail.has_holds:
        adopt_holds(guardrail.workspace.account_id, budget_scopes(guardrail))


def begin_budget_of(guardrail: Any, holders: Iterable[dict[str, int]]) -> None:
    """The same for holders (`key` or `user` by number) that come under it."""
    if guardrail.limit_nano is not None and guardrail.has_holds:
        scopes = [scope_of(guardrail, **holder) for holder in holders]
        adopt_holds(guardrail.workspace.account_id, scopes)


def end_budget(guardrail_id: UUID) -> None:
    """Nobody is held to the guardrail's budget as it was."""
    _end(Q(scope_id__startswith=f"{guardrail_id.hex}:"))


def end_budget_of(pairs: Iterable[tuple[UUID, dict[str, int]]]) -> None:
    """These holders are not held any more to the budgets of these guardrails."""
    ids = [guardrail_scope_id(guardrail, **holder) for guardrail, holder in pairs]
    if ids:
        _end(Q(scope_id__in=ids))


def _end(whose: Q) -> None:
    counters = SpendCounter.objects.filter(whose, scope="guardrail", limit_nano__isnull=False)
    counters.update(limit_nano=None)


def budget_scopes(guardrail: Guardrail) -> list[SpendScope]:
    """The guardrail's budget as each of its holders has it now."""
    keys, users = _holders(guardrail)
    scopes = [scope_of(guardrail, user=user) for user in sorted(users)]
    return scopes + [scope_of(guardrail, key=key) for key in sorted(keys)]


def _holders(guardrail: Guardrail) -> tuple[set[int], set[int]]:
    """The keys and the users whose spending its budget counts, by number."""
    if guardrail.is_default:
        keys = ApiKey.objects.filter(workspace=guardrail.workspace_id, deleted_at__isnull=True)
        owned = list(keys.values_list("pk", "creator_id"))
        return {key for key, _ in owned}, {user for _, user in owned if user is not None}
    own = GuardrailKey.objects.filter(guardrail=guardrail, api_key__deleted_at__isnull=True)
    members = GuardrailMember.objects.filter(guardrail=guardrail)
    found = own.values_list("api_key_id", Value(_KEY)).union(
        members.values_list("membership__user_id", Value(_USER)), all=True
    )
    rows = list(found)
    return (
        {number for number, kind in rows if kind == _KEY},
        {number for number, kind in rows if kind == _USER},
    )
