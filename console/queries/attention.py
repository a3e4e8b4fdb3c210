"""What needs somebody: money that runs out, providers that fail, models without a price."""

from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import F, Q
from django.urls import reverse

from accounts.models import ApiKey
from accounts.roles import Action
from accounts.services.key_limits import read_usages
from console.queries.budgets import BudgetUse
from console.queries.endpoint_health import read_learned
from console.queries.interns import filter_interns
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
    if failed := filter_interns(scope, Intern.objects.filter(status="failed")).count():
        text = f"Interns that failed to start: {format_count(failed)}"
        notices.append(Notice("warn", text, reverse("console:interns")))
    sees_all = not scope.view.is_own and scope.view.workspace_ids is None
    if sees_all and scope.account.balance_nano <= 0:
        text = "The account has no credit left: every request that costs something is refused"
        address = reverse("console:credits") if scope.allows(Action.BILLING) else ""
        notices.append(Notice("bad", text, address))
    if scope.is_operator:
        notices += _list_operator_notices()
    return sorted(notices, key=lambda notice: notice.tone != "bad")


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


def _list_operator_notices() -> list[Notice]:
    snapshot, learned = catalogue.current(), read_learned()
    providers = reverse("console:providers")
    notices = [Notice("warn", problem, providers) for problem in snapshot.problems[:5]]
    endpoints = [each for model in snapshot.models.values() for each in model.endpoints]
    parked = {_identify(each) for each in endpoints if each.pk in learned.standing.parked}
    failing = {_identify(each) for each in endpoints if each.pk in learned.standing.unstable}
    ill = [
        ("bad", "fails requests; others take them", failing - parked),
        ("warn", "is parked: it asked to be left alone", parked),
    ]
    for tone, text, found in ill:
        notices += [
            Notice(tone, f"{name} {text}", reverse("console:provider", args=[slug]))
            for slug, name in sorted(found, key=lambda each: each[::-1])
        ]
    if unpriced := sum(each.prices is None for each in endpoints):
        text = f"Endpoints without a price, which get no requests: {format_count(unpriced)}"
        notices.append(Notice("warn", text, providers))
    return notices


def _identify(endpoint: EndpointEntry) -> tuple[str, str]:
    return endpoint.provider.slug, endpoint.provider.name
