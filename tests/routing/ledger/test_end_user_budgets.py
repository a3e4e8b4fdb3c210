"""Budgets of end users hold each of them for himself, from when they are set."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import SpendCounter, Workspace
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import delete_old_counters, erase_end_user_budget
from accounts.services.workspace_budgets import set_budget
from accounts.services.workspaces import change_workspace
from accounts.spending import read_end_user_budget
from gateway.end_users import hash_user
from routing.ledger.orders import Payer
from tests.routing.ledger.books import (
    CENT,
    is_refused,
    placed,
    renewed,
    settle,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def set_limits(payer: Payer, cents: int | None, **limits: int | None) -> None:
    """The default of every end user, and what some have by name."""
    own = {
        hash_user(payer.account_id, user): limit and limit * CENT for user, limit in limits.items()
    }
    budget = {"interval": "monthly", "limit_nano": cents and cents * CENT, "limits": own}
    change_workspace(
        account_id=payer.account_id,
        reference=str(payer.workspace_id),
        by=SYSTEM,
        changes={"end_user_budget": budget},
    )


def asking(payer: Payer, user: str) -> Payer:
    """The payer of a request for that end user, as the limits are now."""
    fresh = renewed(payer)
    budget = read_end_user_budget(Workspace.objects.get(pk=payer.workspace_id))
    assert budget is not None
    scope = budget.build_scope(hash_user(payer.account_id, user))
    return fresh._replace(budgets=(*fresh.budgets, *([scope] if scope else [])))


def counters(payer: Payer) -> list[Any]:
    rows = SpendCounter.objects.filter(scope="end_user", account=payer.account_id)
    return list(rows.order_by("-spent_nano", "held_nano").values_list("spent_nano", "held_nano"))


def test_each_end_user_has_the_default_for_himself_and_some_their_own(writer, payer) -> None:
    set_limits(payer, 10, vip=50, free=None)
    settle(writer, placed(writer, asking(payer, "alice"), 8 * CENT), 8 * CENT)

    assert is_refused(writer, asking(payer, "alice"), 3 * CENT)
    placed(writer, asking(payer, "bob"), 10 * CENT)
    assert is_refused(writer, asking(payer, "bob"), 1)
    placed(writer, asking(payer, "vip"), 45 * CENT)
    placed(writer, asking(payer, "free"), 12 * CENT)
    assert counters(payer) == [(8 * CENT, 0), (0, 10 * CENT), (0, 45 * CENT)]


def test_a_changed_limit_keeps_what_was_spent_and_what_is_under_way(writer, payer) -> None:
    set_limits(payer, 10)
    settle(writer, placed(writer, asking(payer, "alice"), 6 * CENT), 6 * CENT)
    under_way = placed(writer, asking(payer, "alice"), 3 * CENT)

    set_limits(payer, 20)

    assert is_refused(writer, asking(payer, "alice"), 11 * CENT + 1)
    settle(writer, under_way, 2 * CENT)
    placed(writer, asking(payer, "alice"), 12 * CENT)
    assert counters(payer) == [(8 * CENT, 12 * CENT)]


def test_it_stands_beside_the_workspace_s_budget(writer, payer) -> None:
    set_limits(payer, 10)
    set_budget(
        account_id=payer.account_id,
        reference=str(payer.workspace_id),
        interval="monthly",
        limit_nano=15 * CENT,
        include_byok=None,
        by=SYSTEM,
    )
    settle(writer, placed(writer, asking(payer, "alice"), 9 * CENT), 9 * CENT)

    assert is_refused(writer, asking(payer, "alice"), 2 * CENT)
    assert is_refused(writer, asking(payer, "bob"), 7 * CENT)
    placed(writer, asking(payer, "bob"), 6 * CENT)


def test_old_counters_go_and_an_erased_user_s_are_nobody_s(writer, payer) -> None:
    set_limits(payer, 10, alice=20)
    settle(writer, placed(writer, asking(payer, "alice"), 8 * CENT), 8 * CENT)

    erase_end_user_budget(payer.account_id, hash_user(payer.account_id, "alice"))

    budget = Workspace.objects.get(pk=payer.workspace_id).end_user_budget
    assert budget is not None
    assert budget["limits"] == {}
    counter = SpendCounter.objects.get(scope="end_user")
    assert counter.scope_id == f"{payer.workspace_id.hex}:erased-{counter.pk}"
    now = datetime.now(UTC)
    assert [delete_old_counters(now + timedelta(days=days)) for days in (30, 110)] == [0, 1]
