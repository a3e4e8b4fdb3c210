"""What needs somebody: money that runs out, providers that fail, models without a price."""

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from accounts.models import SpendCounter, Workspace, WorkspaceBudget
from accounts.spending import WINDOW_OF_WORD
from accounts.windows import find_window_starts
from console.queries.catalogue import LearnedStats, read_learned
from console.scope import Scope
from console.words import format_count, format_money
from interns.models import Intern
from routing.catalogue.snapshot import catalogue


class BudgetUse(NamedTuple):
    """A budget of a workspace and what its window has spent, in nano-USD."""

    workspace: Workspace
    window: str
    limit_nano: int
    spent_nano: int

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


class Notice(NamedTuple):
    """One thing to look at: how grave, in a sentence, and where."""

    tone: str
    text: str
    url_name: str = ""


def list_budgets(scope: Scope, now: datetime) -> list[BudgetUse]:
    """The budgets of the view's workspaces with what was spent, the fullest first. Nobody's own
    keys have one."""
    if scope.view.is_own:
        return []
    rows = WorkspaceBudget.objects.filter(workspace__account=scope.account)
    if scope.view.workspace_ids is not None:
        rows = rows.filter(workspace_id__in=scope.view.workspace_ids)
    budgets = list(rows.filter(workspace__deleted_at__isnull=True).select_related("workspace"))
    spent = _read_counters({row.workspace for row in budgets}, now)
    used = [
        BudgetUse(
            row.workspace,
            row.interval,
            row.limit_nano,
            spent.get((row.workspace.pk.hex, WINDOW_OF_WORD[row.interval]), 0),
        )
        for row in budgets
    ]
    return sorted(used, key=lambda use: -use.share)


def _read_counters(workspaces: set[Workspace], now: datetime) -> dict[tuple[str, str], int]:
    windows = Q()
    for window, start in find_window_starts(now).items():
        windows |= Q(window=window, window_start=start)
    counters = SpendCounter.objects.filter(
        windows,
        scope=SpendCounter.Scope.WORKSPACE,
        scope_id__in=[workspace.pk.hex for workspace in workspaces],
    )
    return {(row.scope_id, row.window): row.counted_nano for row in counters}


def list_notices(scope: Scope, budgets: list[BudgetUse]) -> list[Notice]:
    """What needs somebody who may see it, the gravest first."""
    notices = [
        Notice(
            use.tone,
            f"{use.label} budget: {format_money(use.spent_nano)} of"
            f" {format_money(use.limit_nano)} is spent",
        )
        for use in budgets
        if use.tone != "good"
    ]
    if not scope.view.is_own and scope.view.workspace_ids is None:
        notices += _list_account_notices(scope)
    if scope.is_operator:
        notices += _list_operator_notices()
    return sorted(notices, key=lambda notice: notice.tone != "bad")


def _list_account_notices(scope: Scope) -> list[Notice]:
    left_nano = scope.account.balance_nano
    notices = []
    if left_nano <= 0:
        text = "The account has no credit left: every request that costs something is refused"
        notices.append(Notice("bad", text))
    failed = Intern.objects.filter(workspace__account=scope.account, status="failed").count()
    if failed:
        notices.append(Notice("warn", f"Interns that failed to start: {format_count(failed)}"))
    return notices


def _list_operator_notices() -> list[Notice]:
    snapshot, learned = catalogue.current(), read_learned()
    notices = [Notice("warn", problem) for problem in snapshot.problems[:5]]
    notices += _list_ill_endpoints(snapshot, learned)
    unpriced = sum(
        endpoint.prices is None
        for model in snapshot.models.values()
        for endpoint in model.endpoints
    )
    if unpriced:
        text = f"Endpoints without a price, which get no requests: {format_count(unpriced)}"
        notices.append(Notice("warn", text))
    return notices


def _list_ill_endpoints(snapshot: Any, learned: LearnedStats) -> list[Notice]:
    endpoints = [each for model in snapshot.models.values() for each in model.endpoints]
    parked = {each.provider.name for each in endpoints if each.pk in learned.standing.parked}
    failing = {each.provider.name for each in endpoints if each.pk in learned.standing.unstable}
    notices = [Notice("warn", f"{name} is parked: it asked to be left alone") for name in parked]
    notices += [
        Notice("bad", f"{name} fails requests; others take them") for name in failing - parked
    ]
    return sorted(notices)
