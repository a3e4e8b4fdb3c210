"""Limits that only warn refuse nothing and miss nothing, and hold again when they are to."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import ApiKey, GuardrailKey, SpendCounter, Workspace
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.key_limits import read_usage
from accounts.services.keys import change_key
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import delete_old_counters, erase_end_user_budget
from accounts.services.workspace_budgets import set_budget
from accounts.services.workspaces import change_workspace
from accounts.spending import (
    UNREACHABLE_NANO,
    build_tag_scopes,
    read_end_user_budget,
    read_tag_budgets,
)
from gateway.end_users import hash_user
from routing.ledger.orders import Payer
from tests.routing.ledger.books import (
    CENT,
    is_refused,
    place_standing,
    renew_payer,
    settle,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def set_monthly(payer: Payer, cents: int, enforcement: str) -> None:
    set_budget(
        account_id=payer.account_id,
        reference=str(payer.workspace_id),
        interval="monthly",
        limit_nano=cents * CENT,
        include_byok=None,
        enforcement=enforcement,
        by=SYSTEM,
    )


def month(payer: Payer) -> SpendCounter:
    return SpendCounter.objects.get(scope_id=payer.workspace_id.hex, window="month")


def limit_key(payer: Payer, cents: int, enforcement: str) -> None:
    changes = {"limit_nano": cents * CENT, "limit_enforcement": enforcement}
    change_key(keys=ApiKey.objects.filter(pk=payer.key_id), changes=changes)


def test_a_budget_that_warns_refuses_nothing_and_counts(writer, payer) -> None:
    set_monthly(payer, 10, "warn")
    for _ in range(3):
        settle(writer, place_standing(writer, renew_payer(payer), 8 * CENT), 8 * CENT)

    assert (month(payer).spent_nano, month(payer).limit_nano) == (24 * CENT, UNREACHABLE_NANO)


def test_what_is_under_way_counts_in_a_budget_that_is_set_to_warn_meanwhile(writer, payer) -> None:
    before = place_standing(writer, renew_payer(payer), 8 * CENT)
    set_monthly(payer, 10, "warn")
    place_standing(writer, renew_payer(payer), CENT)

    settle(writer, before, 8 * CENT)

    assert month(payer).spent_nano == 8 * CENT


def test_a_budget_holds_from_the_moment_it_is_to_block(writer, payer) -> None:
    set_monthly(payer, 10, "warn")
    settle(writer, place_standing(writer, renew_payer(payer), 6 * CENT), 6 * CENT)
    under_way = place_standing(writer, renew_payer(payer), 2 * CENT)

    set_monthly(payer, 10, "block")

    assert is_refused(writer, renew_payer(payer), 2 * CENT + 1)
    place_standing(writer, renew_payer(payer), 2 * CENT)
    settle(writer, under_way, 2 * CENT)
    set_monthly(payer, 10, "warn")
    place_standing(writer, renew_payer(payer), 20 * CENT)


def test_a_guardrail_that_warns_refuses_nothing_until_it_is_to_block(writer, payer) -> None:
    budget = {"limit_nano": 10 * CENT, "reset_interval": "monthly", "budget_enforcement": "warn"}
    guardrail = create_guardrail(
        account_id=payer.account_id,
        workspace_id=payer.workspace_id,
        by=SYSTEM,
        settings={"name": "soft"} | budget,
    )
    GuardrailKey.objects.create(guardrail=guardrail, api_key_id=payer.key_id)
    settle(writer, place_standing(writer, renew_payer(payer), 8 * CENT), 8 * CENT)
    under_way = place_standing(writer, renew_payer(payer), 5 * CENT)

    change_guardrail(
        account_id=payer.account_id,
        guardrail_id=guardrail.pk,
        by=SYSTEM,
        changes={"limit_nano": 15 * CENT, "budget_enforcement": "block"},
    )

    assert is_refused(writer, renew_payer(payer), 2 * CENT + 1)
    settle(writer, under_way, 5 * CENT)
    place_standing(writer, renew_payer(payer), 2 * CENT)


def test_a_key_whose_limit_warns_is_refused_nothing_until_it_is_to_block(writer, payer) -> None:
    limit_key(payer, 10, "warn")
    settle(writer, place_standing(writer, renew_payer(payer), 15 * CENT), 15 * CENT)
    key = ApiKey.objects.get(pk=payer.key_id)
    assert read_usage(key=key, at=datetime.now(UTC)).counted_nano(key) == 15 * CENT
    under_way = place_standing(writer, renew_payer(payer), 4 * CENT)

    limit_key(payer, 20, "block")

    assert is_refused(writer, renew_payer(payer), CENT + 1)
    settle(writer, under_way, 4 * CENT)
    limit_key(payer, 20, "warn")
    place_standing(writer, renew_payer(payer), 9 * CENT)


# --- Budgets of end users -------------------------------------------------------------------------


def limit_end_users(payer: Payer, cents: int | None, **limits: int | None) -> None:
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


def asks_for(payer: Payer, user: str) -> Payer:
    """The payer of a request for that end user, as the limits are now."""
    fresh = renew_payer(payer)
    budget = read_end_user_budget(Workspace.objects.get(pk=payer.workspace_id))
    assert budget is not None
    scope = budget.build_scope(hash_user(payer.account_id, user))
    return fresh._replace(budgets=(*fresh.budgets, *([scope] if scope else [])))


def read_end_user_counters(payer: Payer) -> list[Any]:
    rows = SpendCounter.objects.filter(scope="end_user", account=payer.account_id)
    return list(rows.order_by("-spent_nano", "held_nano").values_list("spent_nano", "held_nano"))


def test_each_end_user_has_the_default_for_himself_and_some_their_own(writer, payer) -> None:
    limit_end_users(payer, 10, vip=50, free=None)
    settle(writer, place_standing(writer, asks_for(payer, "alice"), 8 * CENT), 8 * CENT)

    assert is_refused(writer, asks_for(payer, "alice"), 3 * CENT)
    place_standing(writer, asks_for(payer, "bob"), 10 * CENT)
    assert is_refused(writer, asks_for(payer, "bob"), 1)
    place_standing(writer, asks_for(payer, "vip"), 45 * CENT)
    place_standing(writer, asks_for(payer, "free"), 12 * CENT)
    assert read_end_user_counters(payer) == [(8 * CENT, 0), (0, 10 * CENT), (0, 45 * CENT)]


def test_a_changed_limit_keeps_what_was_spent_and_what_is_under_way(writer, payer) -> None:
    limit_end_users(payer, 10)
    settle(writer, place_standing(writer, asks_for(payer, "alice"), 6 * CENT), 6 * CENT)
    under_way = place_standing(writer, asks_for(payer, "alice"), 3 * CENT)

    limit_end_users(payer, 20)

    assert is_refused(writer, asks_for(payer, "alice"), 11 * CENT + 1)
    settle(writer, under_way, 2 * CENT)
    place_standing(writer, asks_for(payer, "alice"), 12 * CENT)
    assert read_end_user_counters(payer) == [(8 * CENT, 12 * CENT)]


def test_it_stands_beside_the_workspace_s_budget(writer, payer) -> None:
    limit_end_users(payer, 10)
    set_monthly(payer, 15, "block")
    settle(writer, place_standing(writer, asks_for(payer, "alice"), 9 * CENT), 9 * CENT)

    assert is_refused(writer, asks_for(payer, "alice"), 2 * CENT)
    assert is_refused(writer, asks_for(payer, "bob"), 7 * CENT)
    place_standing(writer, asks_for(payer, "bob"), 6 * CENT)


def test_old_counters_go_and_an_erased_user_s_are_nobody_s(writer, payer) -> None:
    limit_end_users(payer, 10, alice=20)
    settle(writer, place_standing(writer, asks_for(payer, "alice"), 8 * CENT), 8 * CENT)

    erase_end_user_budget(payer.account_id, hash_user(payer.account_id, "alice"))

    budget = Workspace.objects.get(pk=payer.workspace_id).end_user_budget
    assert budget is not None
    assert budget["limits"] == {}
    counter = SpendCounter.objects.get(scope="end_user")
    assert counter.scope_id == f"{payer.workspace_id.hex}:erased-{counter.pk}"
    now = datetime.now(UTC)
    assert [delete_old_counters(now + timedelta(days=days)) for days in (30, 110)] == [0, 1]


# --- Budgets of tags ------------------------------------------------------------------------------


def limit_tags(payer: Payer, **cents: int) -> None:
    """By tag, with `__` for the sign between name and value, and `all` for each."""
    budgets = [
        {
            "tag": name.replace("__", "=").replace("=all", "=*"),
            "interval": "monthly",
            "limit_nano": most * CENT,
        }
        for name, most in cents.items()
    ]
    change_workspace(
        account_id=payer.account_id,
        reference=str(payer.workspace_id),
        by=SYSTEM,
        changes={"tag_budgets": budgets},
    )


def asks_with_tags(payer: Payer, **tags: str) -> Payer:
    """The payer of a request with these tags, as the limits are now."""
    fresh = renew_payer(payer)
    budgets = read_tag_budgets(Workspace.objects.get(pk=payer.workspace_id))
    return fresh._replace(budgets=(*fresh.budgets, *build_tag_scopes(budgets, tags)))


def read_tag_counters(payer: Payer) -> list[Any]:
    rows = SpendCounter.objects.filter(scope="tag", account=payer.account_id)
    return sorted(rows.values_list("spent_nano", "held_nano"))


def test_each_value_has_the_default_and_some_their_own(writer, payer) -> None:
    limit_tags(payer, team__all=10, team__search=50)
    settle(writer, place_standing(writer, asks_with_tags(payer, team="blue"), 8 * CENT), 8 * CENT)

    assert is_refused(writer, asks_with_tags(payer, team="blue"), 3 * CENT)
    place_standing(writer, asks_with_tags(payer, team="red", feature="x"), 10 * CENT)
    assert is_refused(writer, asks_with_tags(payer, team="red"), 1)
    place_standing(writer, asks_with_tags(payer, team="search"), 45 * CENT)
    # Nothing else holds who says nothing of a team.
    place_standing(writer, asks_with_tags(payer, feature="team"), 12 * CENT)
    assert read_tag_counters(payer) == [(0, 10 * CENT), (0, 45 * CENT), (8 * CENT, 0)]


def test_a_request_with_two_such_tags_is_held_to_both(writer, payer) -> None:
    limit_tags(payer, team__all=10, feature__all=15)
    both = {"team": "blue", "feature": "chat"}
    settle(writer, place_standing(writer, asks_with_tags(payer, **both), 9 * CENT), 9 * CENT)

    assert is_refused(writer, asks_with_tags(payer, **both), 2 * CENT)
    assert is_refused(writer, asks_with_tags(payer, team="red", feature="chat"), 7 * CENT)
    place_standing(writer, asks_with_tags(payer, team="red", feature="chat"), 6 * CENT)
    assert read_tag_counters(payer) == [(0, 6 * CENT), (9 * CENT, 0), (9 * CENT, 6 * CENT)]


def test_a_limit_of_its_own_keeps_what_was_spent_and_what_is_under_way(writer, payer) -> None:
    limit_tags(payer, team__all=10)
    settle(writer, place_standing(writer, asks_with_tags(payer, team="blue"), 6 * CENT), 6 * CENT)
    under_way = place_standing(writer, asks_with_tags(payer, team="blue"), 3 * CENT)

    limit_tags(payer, team__all=10, team__blue=20)

    assert is_refused(writer, asks_with_tags(payer, team="blue"), 11 * CENT + 1)
    settle(writer, under_way, 2 * CENT)
    place_standing(writer, asks_with_tags(payer, team="blue"), 12 * CENT)
    assert read_tag_counters(payer) == [(8 * CENT, 12 * CENT)]
