"""The audit: every total recomputed from entries and holds alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, Q, Sum

from accounts.models import (
    Account,
    Guardrail,
    GuardrailKey,
    GuardrailMember,
    Hold,
    LedgerEntry,
    SpendCounter,
)
from accounts.models.ledger import CREDIT_KINDS, USAGE_KINDS
from accounts.services.past_spending import (
    PastSpending,
    build_django_reader,
    select_budget_counters,
)
from accounts.services.spend_scopes import build_scope
from accounts.spending import NO_COUNTER, format_guardrail_scope_id


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`mismatches` are sentences, one per wrong total; `off_budgets` the accounts of those that are
    a budget's. `by_account` has the sentences that are of one account."""

    accounts: int
    mismatches: list[str]
    open_holds: int
    held_nano: int
    expired_holds: int
    off_budgets: frozenset[UUID] = frozenset()
    by_account: Mapping[UUID, Sequence[str]] = field(default_factory=dict)


def compare_books(*, now: datetime) -> AuditReport:
    """Read the books at one moment and compare."""
    with transaction.atomic():
        # One snapshot for all reads; SQLite's immediate transaction has one already.
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        off = _check_budgets(now)
        totals = _check_accounts()
        of_budgets = [sentence for sentences in off.values() for sentence in sentences]
        of_totals = [sentence for sentences in totals.values() for sentence in sentences]
        mismatches = [*of_totals, *_check_holds(), *_check_keys(), *of_budgets]
        holds = Hold.objects.aggregate(n=Count("pk"), held=Sum("amount_nano"))
        return AuditReport(
            accounts=Account.objects.count(),
            mismatches=mismatches,
            open_holds=holds["n"],
            held_nano=holds["held"] or 0,
            expired_holds=Hold.objects.filter(lease_expires_at__lt=now).count(),
            off_budgets=frozenset(off),
            by_account={
                account: [*totals.get(account, ()), *off.get(account, ())]
                for account in {*totals, *off}
            },
        )


def _check_accounts() -> dict[UUID, list[str]]:
    """What is wrong, by account."""
    sums = {
        row["account_id"]: (row["credits"] or 0, row["usage"] or 0)
        for row in LedgerEntry.objects.values("account_id").annotate(
            credits=Sum("amount_nano", filter=Q(kind__in=CREDIT_KINDS)),
            usage=Sum("amount_nano", filter=Q(kind__in=USAGE_KINDS)),
        )
    }
    held = dict(Hold.objects.values_list("account_id").annotate(Sum("amount_nano")))
    found: dict[UUID, list[str]] = {}
    for account in Account.objects.iterator():
        bought, used = sums.get(account.pk, (0, 0))
        for name, total, counted in (
            ("total_credits", account.total_credits_nano, bought),
            ("total_usage", account.total_usage_nano, used),
            ("held", account.held_nano, held.get(account.pk, 0)),
        ):
            if total != counted:
                text = f"account {account.pk}: {name} says {total}, entries say {counted}"
                found.setdefault(account.pk, []).append(text)
    return found


def _check_holds() -> list[str]:
    """What a counter holds is the sum of the holds that name it."""
    held: dict[str, list[int]] = {}
    for hold in Hold.objects.only("counter_ids", "amount_nano", "byok_nano").iterator():
        for counter in hold.counter_ids.split(","):
            sums = held.setdefault(counter, [0, 0])
            sums[0] += hold.amount_nano
            sums[1] += hold.byok_nano
    held.pop(NO_COUNTER, None)
    found = []
    for row in SpendCounter.objects.iterator():
        counted = held.pop(str(row.pk), [0, 0])
        for name, total, nano in zip(
            ("held", "BYOK held"), (row.held_nano, row.byok_held_nano), counted, strict=True
        ):
            if total != nano:
                found.append(f"counter {row}: {name} says {total}, holds say {nano}")
    found += [f"counter {pk} is gone, holds say {sums[0]}" for pk, sums in held.items()]
    return found


def _check_keys() -> list[str]:
    """Each charge counts in one counter of every window, so that over all starts of a window a
    key's counters sum up to its entries."""
    entries = LedgerEntry.objects.filter(kind__in=USAGE_KINDS, api_key__isnull=False)
    counters = SpendCounter.objects.filter(scope=SpendCounter.Scope.KEY)
    spent = {
        str(key): (nano, byok)
        for key, nano, byok in entries.values_list("api_key_id").annotate(
            Sum("amount_nano"), Sum("byok_nano")
        )
    }
    counted_by_key = {
        (key, window): (nano, byok)
        for key, window, nano, byok in counters.values_list("scope_id", "window").annotate(
            Sum("spent_nano"), Sum("byok_spent_nano")
        )
    }
    found = []
    for key in sorted({*spent, *(key for key, _ in counted_by_key)}):
        for window in SpendCounter.Window.values:
            says, counted = counted_by_key.get((key, window), (0, 0)), spent.get(key, (0, 0))
            found += _describe_differences(f"key {key}: {window}", says, counted)
    return found


def _check_budgets(now: datetime) -> dict[UUID, list[str]]:
    """What is wrong, by account: a budget's counter says what the books say of the same scope."""
    pasts: dict[UUID, PastSpending] = {}
    found: dict[UUID, list[str]] = {}
    in_force = _GuardrailsInForce()
    for row in filter(in_force.has, select_budget_counters(now)):
        assert row.account_id is not None
        past = pasts.setdefault(row.account_id, PastSpending(build_django_reader(), row.account_id))
        says = row.spent_nano, row.byok_spent_nano
        counted = past.read(build_scope(row), row.window_start)
        wrong = _describe_differences(f"account {row.account_id}: budget {row}:", says, counted)
        if wrong:
            found.setdefault(row.account_id, []).extend(wrong)
    return found


class _GuardrailsInForce:
    """Which guardrails hold whom at this moment. Once the guardrail, its workspace or the
    membership is gone, a limited counter may be left on which nothing is counted. The ledger writer
    makes it anew for whoever comes under it again."""

    def __init__(self) -> None:
        everything = Guardrail.everything.values_list("pk", "is_default")
        self._is_default = {pk.hex: is_default for pk, is_default in everything}
        living = Guardrail.objects.filter(limit_nano__isnull=False)
        self._living = {pk.hex for pk in living.values_list("pk", flat=True)}
        keys = GuardrailKey.objects.values_list("guardrail_id", "api_key_id")
        members = GuardrailMember.objects.values_list("guardrail_id", "membership__user_id")
        self._held = {format_guardrail_scope_id(guardrail, key=key) for guardrail, key in keys}
        self._held |= {
            format_guardrail_scope_id(guardrail, user=user) for guardrail, user in members
        }

    def has(self, counter: SpendCounter) -> bool:
        guardrail = counter.scope_id.partition(":")[0]
        if counter.scope != SpendCounter.Scope.GUARDRAIL or guardrail not in self._is_default:
            return True
        held = self._is_default[guardrail] or counter.scope_id in self._held
        return held and guardrail in self._living


def _describe_differences(whose: str, says: tuple[int, int], counted: tuple[int, int]) -> list[str]:
    return [
        f"{whose} {name} says {total}, entries say {sums}"
        for name, total, sums in zip(("spent", "BYOK spent"), says, counted, strict=True)
        if total != sums
    ]
