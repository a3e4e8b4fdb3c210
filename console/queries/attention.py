"""What needs somebody: money that runs out, providers that fail, models without a price."""

from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import F, Q
from django.urls import reverse

from accounts.models import ApiKey
from accounts.roles import Action
from accounts.services.key_limits import read_usages
from console.queries.budgets import BudgetUse
from console.queries.catalogue import LearnedStats, read_learned
from console.scope import Scope
from console.words import format_count, format_money
from interns.models import Intern
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry

_KEYS_MAX: Final = 100
_NAMES_MAX: Final = 3


class Notice(NamedTuple):
    """One thing to look at: how grave, in a sentence, and the page where (empty: none that the
    person may open)."""

    tone: str
    text: str
    address: str = ""


def list_notices(scope: Scope, budgets: list[BudgetUse], now: datetime) -> list[Notice]:
    """What needs somebody who may see it, the gravest first."""
    notices = [
        Notice(
            use.tone,
            f"{use.label} budget: {format_money(use.spent_nano)} of"
            f" {format_money(use.limit_nano)} is spent",
            find_budget_page(scope, use),
        )
        for use in budgets
        if use.tone != "good"
    ]
    notices += _list_key_notices(scope, now)
    notices += _list_intern_notices(scope)
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
        address = reverse("console:credits") if scope.allows(Action.BILLING) else ""
        notices.append(Notice("bad", text, address))
    return notices


def find_budget_page(scope: Scope, use: BudgetUse) -> str:
    """The workspace's page, where the person leads it."""
    pk = use.workspace.pk
    return reverse("console:workspace", args=[pk]) if scope.leads(pk) else ""


def _list_key_notices(scope: Scope, now: datetime) -> list[Notice]:
    """Keys of the view, of those with a limit that were used last, that have spent it."""
    limited = ApiKey.objects.living().filter(
        kind=ApiKey.Kind.INFERENCE, disabled=False, limit_nano__isnull=False
    )
    limited = limited.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    newest = scope.filter_keys(limited).order_by(F("last_used_at").desc(nulls_last=True), "-pk")
    keys = list(newest[:_KEYS_MAX])
    usages = read_usages(keys=keys, at=now) if keys else {}
    spent = [
        key
        for key in keys
        if key.enforced_limit_nano is not None
        and usages[key.pk].counted_nano(key) >= key.enforced_limit_nano
    ]
    if not spent:
        return []
    if len(spent) == 1:
        text = f"The key {spent[0].name} has reached its limit: its requests are refused"
        return [Notice("bad", text, reverse("console:key", args=[spent[0].pk]))]
    names = ", ".join(key.name for key in spent[:_NAMES_MAX])
    names += ", ..." if len(spent) > _NAMES_MAX else ""
    text = f"Keys that have reached their limit: {format_count(len(spent))} ({names})"
    return [Notice("bad", text, reverse("console:keys"))]


def _list_intern_notices(scope: Scope) -> list[Notice]:
    rows = Intern.objects.filter(workspace__account=scope.account, status="failed")
    if scope.view.is_own:
        rows = rows.filter(creator=scope.user)
    elif scope.view.workspace_ids is not None:
        rows = rows.filter(workspace__in=scope.view.workspace_ids)
    failed = rows.count()
    if not failed:
        return []
    text = f"Interns that failed to start: {format_count(failed)}"
    return [Notice("warn", text, reverse("console:interns"))]


def _list_operator_notices() -> list[Notice]:
    snapshot, learned = catalogue.current(), read_learned()
    providers = reverse("console:providers")
    notices = [Notice("warn", problem, providers) for problem in snapshot.problems[:5]]
    notices += _list_ill_endpoints(snapshot, learned)
    unpriced = sum(
        endpoint.prices is None
        for model in snapshot.models.values()
        for endpoint in model.endpoints
    )
    if unpriced:
        text = f"Endpoints without a price, which get no requests: {format_count(unpriced)}"
        notices.append(Notice("warn", text, providers))
    return notices


def _list_ill_endpoints(snapshot: Any, learned: LearnedStats) -> list[Notice]:
    endpoints = [each for model in snapshot.models.values() for each in model.endpoints]
    parked = {_identify(each) for each in endpoints if each.pk in learned.standing.parked}
    failing = {_identify(each) for each in endpoints if each.pk in learned.standing.unstable}
    notices = [
        Notice("warn", f"{name} is parked: it asked to be left alone", _link_provider(slug))
        for slug, name in parked
    ]
    notices += [
        Notice("bad", f"{name} fails requests; others take them", _link_provider(slug))
        for slug, name in failing - parked
    ]
    return sorted(notices)


def _identify(endpoint: EndpointEntry) -> tuple[str, str]:
    return endpoint.provider.slug, endpoint.provider.name


def _link_provider(slug: str) -> str:
    return reverse("console:provider", args=[slug])
