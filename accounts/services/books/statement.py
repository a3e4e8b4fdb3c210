"""An account's statement: its balance at the start, what moved it, and its balance at the end.

Credits and reversals have a line each. Usage is summed per day, workspace, key and kind, so that a
million requests make a few thousand lines. All of it is read at one moment, and every amount is its
effect on the balance: what was spent is negative.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import BigIntegerField, Count, DateField, Func, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from accounts.models import Account, ApiKey, LedgerEntry, Workspace
from accounts.models.ledger import CREDIT_KINDS, SINGLE_KINDS, USAGE_KINDS

_SUMMED_KINDS: Final = tuple(kind for kind in USAGE_KINDS if kind not in SINGLE_KINDS)
_ROWS_AT_A_TIME: Final = 500


class StatementPeriod(NamedTuple):
    """From `start` until before `end`, both in UTC."""

    start: datetime
    end: datetime


class StatementLine(NamedTuple):
    """One entry (`at` says when), or the sum of a day's usage of one kind, workspace and key."""

    day: date
    at: datetime | None
    kind: str
    entries: int
    amount_nano: int
    workspace_id: UUID | None = None
    workspace: str | None = None
    key_hash: str | None = None
    key: str | None = None
    source: str | None = None
    source_ref: str | None = None
    generation_id: str | None = None
    note: str | None = None


@dataclass
class StatementTotals:
    """The sum of the lines so far, in nano-USD by their effect on the balance."""

    lines: int = 0
    entries: int = 0
    credits_nano: int = 0
    usage_nano: int = 0

    def add(self, line: StatementLine) -> None:
        self.lines += 1
        self.entries += line.entries
        if line.kind in CREDIT_KINDS:
            self.credits_nano += line.amount_nano
        else:
            self.usage_nano += line.amount_nano

    @property
    def moved_nano(self) -> int:
        return self.credits_nano + self.usage_nano


def read_balance_nano(account_id: UUID, end: datetime) -> int:
    """The balance just before `end`: today's without what came later."""
    later = LedgerEntry.objects.filter(account=OuterRef("pk"), created_at__gte=end)
    row = (
        Account.objects.filter(pk=account_id)
        .annotate(
            later_credits_nano=_sum_amounts(later, CREDIT_KINDS),
            later_usage_nano=_sum_amounts(later, USAGE_KINDS),
        )
        .get()
    )
    later_nano: int = row.later_credits_nano - row.later_usage_nano
    return row.balance_nano - later_nano


def read_statement_lines(account_id: UUID, period: StatementPeriod) -> Iterator[StatementLine]:
    """The lines of a period in order of time; a day's single entries stand before its sums."""
    entries = LedgerEntry.objects.filter(
        account=account_id, created_at__gte=period.start, created_at__lt=period.end
    )
    return heapq.merge(
        _read_singles(entries), _read_sums(account_id, entries), key=lambda line: line.day
    )


def _sum_amounts(entries: Any, kinds: tuple[str, ...]) -> Coalesce:
    wanted = entries.filter(kind__in=kinds).order_by().values("account")
    total = wanted.annotate(total=Sum("amount_nano")).values("total")
    return Coalesce(Subquery(total, output_field=BigIntegerField()), 0)


def _read_singles(entries: Any) -> Iterator[StatementLine]:
    rows = (
        entries.filter(kind__in=SINGLE_KINDS)
        .order_by("created_at", "pk")
        .values_list(
            *("created_at", "kind", "amount_nano", "workspace_id", "workspace__name"),
            *("api_key__hash", "api_key__name", "source", "source_ref", "generation_id", "note"),
        )
    )
    for at, kind, amount_nano, *rest in rows.iterator(chunk_size=_ROWS_AT_A_TIME):
        yield StatementLine(at.date(), at, kind, 1, _sign_amount(kind, amount_nano), *rest)


def _read_sums(account_id: UUID, entries: Any) -> Iterator[StatementLine]:
    rows = (
        entries.filter(kind__in=_SUMMED_KINDS)
        .values("workspace_id", "api_key_id", "kind", utc_day=_UtcDay("created_at"))
        .annotate(entries=Count("pk"), total_nano=Sum("amount_nano"))
        .order_by("utc_day", "workspace_id", "api_key_id", "kind")
        .values_list("utc_day", "kind", "entries", "total_nano", "workspace_id", "api_key_id")
    )
    workspaces: dict[UUID, str] | None = None
    keys: dict[int, tuple[str, str]] = {}
    for day, kind, count, total_nano, workspace_id, key_id in rows.iterator(
        chunk_size=_ROWS_AT_A_TIME
    ):
        if workspaces is None:
            # Of deleted ones as well.
            of_account = Workspace.everything.filter(account=account_id)
            workspaces = dict(of_account.values_list("pk", "name"))
            found = ApiKey.objects.filter(account=account_id).values_list("pk", "hash", "name")
            keys = {pk: (key_hash, name) for pk, key_hash, name in found}
        key_hash, key = keys.get(key_id, (None, None))
        yield StatementLine(
            *(day, None, kind, count, _sign_amount(kind, int(total_nano))),
            *(workspace_id, workspaces.get(workspace_id), key_hash, key),
        )


def _sign_amount(kind: str, amount_nano: int) -> int:
    return amount_nano if kind in CREDIT_KINDS else -amount_nano


class _UtcDay(Func):
    """The day of a moment, without a call into Python for each row as SQLite's TruncDate makes."""

    output_field = DateField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template="substr(%(expressions)s, 1, 10)", **context
        )

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "(%(expressions)s AT TIME ZONE 'UTC')::date"
        return self.as_sql(compiler, connection, template=template, **context)
