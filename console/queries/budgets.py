"""Budgets and limits: what is spent, and the day they run out at the pace of the last days."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Final, Literal
from uuid import UUID

from accounts.models import ApiKey, Workspace, WorkspaceBudget
from accounts.services.budgets import read_spending_of_many
from accounts.spending import (
    WINDOW_OF_WORD,
    build_workspace_scopes,
    find_window_end,
    find_window_starts,
)
from console.queries.sums import SumQuery, fetch_sums
from console.scope import Scope
from routing.history.metrics import METRICS
from routing.history.spans import DAY, hour_of
from routing.history.statement import QueryCondition

PACE_DAYS: Final = 7
_PACE: Final = (METRICS["credits_usage"], METRICS["byok_usage"])
_NEVER_RESET: Final = WorkspaceBudget.Interval.LIFETIME.value
Outlook = Literal["spent", "unused", "lasts", "runs out"]


@dataclass(frozen=True)
class LimitUse:
    """A limit, what its window (`daily`, ... or `lifetime`) has spent, and what a day spends, in
    nano-USD; None where nobody asked for the pace."""

    window: str
    limit_nano: int
    spent_nano: int
    now: datetime
    day_nano: float | None = None
    only_warns: bool = False

    @property
    def share(self) -> float:
        return self.spent_nano / self.limit_nano if self.limit_nano else 1

    @property
    def percent(self) -> int:
        return min(100, round(self.share * 100))

    @property
    def tone(self) -> str:
        return "bad" if self.share >= 1 else "warn" if self.share >= 0.8 else "good"

    @property
    def resets_at(self) -> datetime | None:
        """When it begins anew; None where it never does."""
        window = WINDOW_OF_WORD[self.window]
        end = find_window_end(window, find_window_starts(self.now)[window])
        return None if end is None else datetime.combine(end, time(), UTC)

    @property
    def runs_out_at(self) -> datetime | None:
        """When all of it will be spent at this pace; None where that is too far away to say."""
        if not self.day_nano:
            return None
        days = (self.limit_nano - self.spent_nano) / self.day_nano
        return self.now + days * DAY if days < 3_650 else None

    @property
    def outlook(self) -> Outlook:
        if self.share >= 1:
            return "spent"
        if not self.day_nano:
            return "unused"
        end, reset = self.runs_out_at, self.resets_at
        return "lasts" if end is None or (reset is not None and end >= reset) else "runs out"


@dataclass(frozen=True, kw_only=True)
class BudgetUse(LimitUse):
    """A budget of a workspace, which is loaded, and how it is used."""

    row: WorkspaceBudget

    @property
    def workspace(self) -> Workspace:
        return self.row.workspace

    @property
    def label(self) -> str:
        return f"{self.workspace.name}, {self.window}"


def list_budgets(scope: Scope, now: datetime) -> list[BudgetUse]:
    """The budgets of the view's workspaces with what was spent, the fullest first. Nobody's own
    keys have one."""
    if scope.view.is_own:
        return []
    rows = WorkspaceBudget.objects.filter(workspace__account=scope.account)
    if scope.view.workspace_ids is not None:
        rows = rows.filter(workspace_id__in=scope.view.workspace_ids)
    found = rows.filter(workspace__deleted_at__isnull=True).select_related("workspace")
    return sorted(_load_uses(list(found), now), key=lambda use: -use.share)


def list_budgets_of(workspace: Workspace, now: datetime) -> list[BudgetUse]:
    """Those of one workspace with their pace, the broadest first."""
    rows = list(workspace.budgets.select_related("workspace"))
    paces = read_paces([workspace], now)
    rows.sort(key=lambda row: list(WINDOW_OF_WORD).index(row.interval))
    return _load_uses(rows, now, paces)


def _load_uses(
    rows: list[WorkspaceBudget], now: datetime, paces: Mapping[UUID, float] | None = None
) -> list[BudgetUse]:
    asked = [
        (row.workspace.account_id, build_workspace_scopes(row.workspace, [row])[0]) for row in rows
    ]
    spent = read_spending_of_many(asked, at=now)
    return [
        BudgetUse(
            row.interval,
            row.limit_nano,
            nano,
            now,
            None if paces is None else paces.get(row.workspace_id, 0),
            row.enforcement == "warn",
            row=row,
        )
        for row, nano in zip(rows, spent, strict=True)
    ]


def read_paces(workspaces: Iterable[Workspace], now: datetime) -> dict[UUID, float]:
    """What a day of the last seven spent in each workspace of one account, as its budgets count.
    A younger workspace is judged by its own days."""
    by_id = {workspace.pk: workspace for workspace in workspaces}
    if not by_id:
        return {}
    account_id = next(iter(by_id.values())).account_id
    query = SumQuery(account_id, _find_pace_start(now), _PACE, groups=("workspace_id",))
    found = {}
    for (pk,), (charged_nano, own_nano) in fetch_sums(query, now).items():
        workspace = by_id.get(UUID(str(pk)))
        if workspace is not None:
            spent_nano = charged_nano + (own_nano if workspace.include_byok_in_budgets else 0)
            found[workspace.pk] = spent_nano / _count_days(workspace.created_at, now)
    return found


def read_key_limit(key: ApiKey, counted_nano: int, now: datetime) -> LimitUse | None:
    """A key's limit, of which so much is spent, with the key's own pace; None without a limit."""
    if key.limit_nano is None:
        return None
    is_own = QueryCondition("api_key_id", "{column} = %s", (key.pk,))
    query = SumQuery(key.account_id, _find_pace_start(now), _PACE, conditions=(is_own,))
    sums = fetch_sums(query, now).get((), (0, 0))
    spent_nano = sums[0] + (sums[1] if key.include_byok_in_limit else 0)
    pace_nano = spent_nano / _count_days(key.created_at, now)
    return LimitUse(key.limit_reset or _NEVER_RESET, key.limit_nano, counted_nano, now, pace_nano)


def _find_pace_start(now: datetime) -> datetime:
    # Full hours have been summed up.
    return hour_of(now) - PACE_DAYS * DAY


def _count_days(since: datetime, now: datetime) -> float:
    """Over how many of the last days something spent that exists since then."""
    return max(1.0, min(float(PACE_DAYS), (now - since) / DAY))
