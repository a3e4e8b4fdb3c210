"""What the ledger must know of the budgets of guardrails (management reference 8.4, 12.3).

Whoever changes one calls `outdate_limits` first: from the commit on, no hold is placed by who knows
older budgets, and who knows it lets requests under way hold on it. It locks the account's row, so
what is read after it stays true until then.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q

from accounts.models import SpendCounter
from accounts.spending import format_guardrail_scope_id


def end_guardrail_budget(guardrail_id: UUID) -> None:
    """Nobody is held to the guardrail's budget as it was."""
    _clear_limits(Q(scope_id__startswith=f"{guardrail_id.hex}:"))


def end_holder_budgets(pairs: Iterable[tuple[UUID, dict[str, int]]]) -> None:
    """These holders are not held any more to the budgets of these guardrails."""
    ids = [format_guardrail_scope_id(guardrail, **holder) for guardrail, holder in pairs]
    if ids:
        _clear_limits(Q(scope_id__in=ids))


def end_member_budgets(account_id: UUID, user: int | None) -> None:
    """No guardrail's budget any more for all that a user's keys spend in the account, until the
    ledger writer meets it again."""
    if user is not None:
        _clear_limits(Q(account=account_id, scope_id__endswith=f":u:{user}"))


def _clear_limits(whose: Q) -> None:
    counters = SpendCounter.objects.filter(whose, scope="guardrail", limit_nano__isnull=False)
    counters.update(limit_nano=None)
