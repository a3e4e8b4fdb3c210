"""What workspaces may spend: their budgets, read, set and taken away."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from accounts.models import Hold, Workspace, WorkspaceBudget
from accounts.services.past_spending import build_django_reader, build_usage_condition
from accounts.services.records import Actor, record_row
from accounts.services.spend_scopes import end_budgets, outdate_limits
from accounts.services.workspaces import match_reference
from accounts.spending import WINDOW_OF_WORD, build_workspace_scopes, find_window_starts
from gateway.http.errors import InvalidRequest, NotFound
from gateway.http.jsonio import JsonObject, format_usd

_record: Final = partial(record_row, "workspace_budget")

# Broadest first, as they are listed and looked at.
INTERVALS: Final = tuple(WINDOW_OF_WORD)
_SET: Final = """
    INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start, spent_nano,
        held_nano, limit_nano, byok_spent_nano, counts_byok, account_id, workspace_id)
    SELECT 'workspace', %s, %s, %s, COALESCE(SUM(amount_nano), 0), 0, %s,
        COALESCE(SUM(byok_nano), 0), %s, %s, %s FROM accounts_ledgerentry WHERE {condition}
    ON CONFLICT (scope, scope_id, "window", window_start) DO UPDATE SET
        spent_nano = excluded.spent_nano, byok_spent_nano = excluded.byok_spent_nano,
        limit_nano = excluded.limit_nano, counts_byok = excluded.counts_byok
"""


class LimitsNotDecreasing(InvalidRequest):
    """Of two budgets the one of the wider interval is not the larger one."""

    def __init__(self, wide: WorkspaceBudget, narrow: WorkspaceBudget) -> None:
        super().__init__(
            "Budget limits must strictly decrease: "
            f"{wide.interval} (${format_usd(wide.limit_nano)}) must exceed "
            f"{narrow.interval} (${format_usd(narrow.limit_nano)})"
        )


@dataclass(frozen=True, slots=True)
class WorkspaceBudgets:
    """A workspace (without its other settings) and its budgets, the broadest first. `is_in_use`
    tells whether requests of the account are under way."""

    workspace: Workspace
    rows: tuple[WorkspaceBudget, ...]
    is_in_use: bool

    def find(self, interval: str) -> WorkspaceBudget | None:
        return next((row for row in self.rows if row.interval == interval), None)


def find_budgets(account_id: UUID, reference: str) -> WorkspaceBudgets:
    """Those of the account's workspace of that id or slug, in one query. Raises `NotFound`."""
    wanted = match_reference(reference)
    if wanted is None:
        raise NotFound
    in_use = Hold.objects.filter(account=OuterRef("account"))
    found = (
        Workspace.objects.filter(wanted, account_id=account_id)
        .annotate(is_in_use=Exists(in_use))
        .values(
            *("pk", "account_id", "slug", "include_byok_in_budgets", "is_in_use"),
            *(f"budgets__{name}" for name in ("id", "interval", "limit_nano", "enforcement")),
            *("budgets__created_at", "budgets__updated_at"),
        )
    )
    rows = list(found)
    if not rows:
        raise NotFound
    # Its id counts where a slug reads like one.
    chosen = min(rows, key=lambda row: str(row["pk"]) != reference.lower())["pk"]
    return _build_budgets([row for row in rows if row["pk"] == chosen])


def find_budget(
    account_id: UUID, reference: str, interval: str
) -> tuple[WorkspaceBudgets, WorkspaceBudget]:
    """One of them. Raises `NotFound` also where there is none of that interval."""
    found = find_budgets(account_id, reference)
    row = found.find(interval)
    if row is None:
        raise NotFound
    return found, row


def set_budget(
    *,
    account_id: UUID,
    reference: str,
    interval: str,
    limit_nano: int,
    include_byok: bool | None,
    enforcement: str = "block",
    by: Actor,
    at: datetime | None = None,
) -> tuple[WorkspaceBudgets, WorkspaceBudget]:
    """Set one budget, and for all of the workspace whether BYOK counts (None: as it is).

    It holds from the commit on, for what was spent already and for requests under way. Raises
    `NotFound` and `LimitsNotDecreasing`.
    """
    with transaction.atomic():
        outdate_limits(account_id)
        at = at or datetime.now(UTC)
        before = find_budgets(account_id, reference)
        workspace = before.workspace
        facts_before = _read_facts(workspace, before.find(interval))
        after = apply_limit(before, interval, limit_nano, enforcement)
        check_decreasing(after)
        row = after.find(interval)
        assert row is not None
        row.created_at, row.updated_at = row.created_at or at, at
        row.save(force_insert=row._state.adding, force_update=not row._state.adding)
        if include_byok not in (None, workspace.include_byok_in_budgets):
            # The ledger writer puts limits on all counters when it next meets them.
            workspace.include_byok_in_budgets = bool(include_byok)
            workspace.save(update_fields=["include_byok_in_budgets"])
        else:
            _set_counter(after, interval, at)
        _record(by, "set", row, facts_before, _read_facts(workspace, row), at=at)
    return after, row


def apply_limit(
    budgets: WorkspaceBudgets, interval: str, limit_nano: int, enforcement: str = "block"
) -> WorkspaceBudgets:
    """The budgets with this one set; nothing is saved."""
    row = budgets.find(interval) or WorkspaceBudget(workspace=budgets.workspace, interval=interval)
    row.limit_nano, row.enforcement = limit_nano, enforcement
    others = [each for each in budgets.rows if each.interval != interval]
    return WorkspaceBudgets(budgets.workspace, _sort_budgets([*others, row]), budgets.is_in_use)


def check_decreasing(budgets: WorkspaceBudgets) -> None:
    """Raise `LimitsNotDecreasing` unless limits decrease as their intervals narrow."""
    for wide, narrow in pairwise(budgets.rows):
        if wide.limit_nano <= narrow.limit_nano:
            raise LimitsNotDecreasing(wide, narrow)


def delete_budget(
    *, account_id: UUID, reference: str, interval: str, by: Actor, at: datetime | None = None
) -> bool:
    """Take a budget away; whether there was one. Raises `NotFound` for an unknown workspace."""
    at = at or datetime.now(UTC)
    with transaction.atomic():
        row = find_budgets(account_id, reference).find(interval)
        if row is None:
            return False
        workspace = row.workspace
        end_budgets(account_id, build_workspace_scopes(workspace, [row]))
        # Locked by now; a faster caller has written the record.
        if not WorkspaceBudget.objects.filter(pk=row.pk).delete()[0]:
            return False
        _record(by, "deleted", row, _read_facts(workspace, row), None, at=at)
    return True


def _build_budgets(rows: list[JsonObject]) -> WorkspaceBudgets:
    first = rows[0]
    workspace = Workspace(
        pk=first["pk"],
        account_id=first["account_id"],
        slug=first["slug"],
        include_byok_in_budgets=first["include_byok_in_budgets"],
    )
    workspace._state.adding = False
    budgets = []
    for fields in rows:
        if fields["budgets__id"] is None:
            continue
        row = WorkspaceBudget(
            pk=fields["budgets__id"],
            workspace=workspace,
            interval=fields["budgets__interval"],
            limit_nano=fields["budgets__limit_nano"],
            enforcement=fields["budgets__enforcement"],
            created_at=fields["budgets__created_at"],
            updated_at=fields["budgets__updated_at"],
        )
        row._state.adding = False
        budgets.append(row)
    return WorkspaceBudgets(workspace, _sort_budgets(budgets), first["is_in_use"])


def _sort_budgets(rows: Iterable[WorkspaceBudget]) -> tuple[WorkspaceBudget, ...]:
    return tuple(sorted(rows, key=lambda row: INTERVALS.index(row.interval)))


def _set_counter(budgets: WorkspaceBudgets, interval: str, at: datetime) -> None:
    """One statement: the limit on its counter, and what the books say was spent.

    While requests are under way that must hold on it too, the ledger writer puts the limit there,
    when it next meets it.
    """
    workspace = budgets.workspace
    scopes = build_workspace_scopes(workspace, budgets.rows)
    scope = next(each for each in scopes if each.window == WINDOW_OF_WORD[interval])
    start = find_window_starts(at)[scope.window]
    reader = build_django_reader()
    condition, values = build_usage_condition(
        reader, workspace.account_id, workspace.pk, scope.window, start
    )
    limit_nano = None if budgets.is_in_use else scope.counter_limit_nano
    with connection.cursor() as cursor:
        cursor.execute(
            _SET.format(condition=condition),
            [
                *(scope.scope_id, scope.window, reader.day(start), limit_nano, scope.counts_byok),
                *(reader.uuid(workspace.account_id), reader.uuid(workspace.pk), *values),
            ],
        )


def _read_facts(workspace: Workspace, row: WorkspaceBudget | None) -> JsonObject:
    return {
        "workspace_id": workspace.pk,
        "interval": row.interval if row else None,
        "limit_nano": row.limit_nano if row else None,
        "enforcement": row.enforcement if row else None,
        "include_byok_in_budgets": workspace.include_byok_in_budgets,
    }
