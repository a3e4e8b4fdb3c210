"""What needs somebody: money that runs out, providers that fail, models without a price."""

from typing import Any, NamedTuple

from console.queries.budgets import BudgetUse
from console.queries.catalogue import LearnedStats, read_learned
from console.scope import Scope
from console.words import format_count, format_money
from interns.models import Intern
from routing.catalogue.snapshot import catalogue


class Notice(NamedTuple):
    """One thing to look at: how grave, in a sentence, and where."""

    tone: str
    text: str
    url_name: str = ""


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
