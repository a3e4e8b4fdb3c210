"""Budgets of workspaces: what is spent, and the day they run out at the pace of the last days."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Final, Literal
from uuid import UUID

from accounts.models import Workspace, WorkspaceBudget
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

PACE_DAYS: Final = 7
_PACE: Final = (METRICS["credits_usage"], METRICS["byok_usage"])
Outlook = Literal["spent", "unused", "lasts", "runs out"]


@dataclass(frozen=True)
class BudgetUse:
    """A budget of a workspace (which is loaded), what its window has spent, and what a day spends,
    in nano-USD; None where nobody asked for the pace."""

    row: WorkspaceBudget
    spent_nano: int
    now: datetime
    day_nano: float | None = None

    @property
    def workspace(self) -> Workspace:
        return self.row.workspace

    @property
    def window(self) -> str:
        return self.row.interval

    @property
    def limit_nano(self) -> int:
        return self.row.limit_nano

    @property
    def share(self) -> float:
        return self.spent_nano / self.limit_nano

    @property
    def percent(self) -> int:
        return min(100, round(self.share * 100))

    @property
    def tone(self) -> str:
        return "bad" if self.share >= 1 else "warn" if self.share >= 0.8 else "good"

    @property
    def label(self) -> str:
        return f"{self.workspace.name}, {self.window}"

    @property
    def only_warns(self) -> bool:
        return self.row.enforcement == "warn"

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
        BudgetUse(row, nano, now, None if paces is None else paces.get(row.workspace_id, 0))
        for row, nano in zip(rows, spent, strict=True)
    ]


def read_paces(workspaces: Iterable[Workspace], now: datetime) -> dict[UUID, float]:
    """What a day of the last seven spent in each workspace of one account, as its budgets count.
    A younger workspace is judged by its own days."""
    by_id = {workspace.pk: workspace for workspace in workspaces}
    if not by_id:
        return {}
    account_id = next(iter(by_id.values())).account_id
    # Full hours have been summed up.
    start = hour_of(now) - PACE_DAYS * DAY
    query = SumQuery(account_id, start, _PACE, groups=("workspace_id",))
    found = {}
    for (pk,), (charged_nano, own_nano) in fetch_sums(query, now).items():
        workspace = by_id.get(UUID(str(pk)))
        if workspace is not None:
            spent_nano = charged_nano + (own_nano if workspace.include_byok_in_budgets else 0)
            days = max(1.0, min(float(PACE_DAYS), (now - workspace.created_at) / DAY))
            found[workspace.pk] = spent_nano / days
    return found
