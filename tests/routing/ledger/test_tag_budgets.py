"""Budgets of tags hold each value for itself, from when they are set."""

from typing import Any

import pytest

from accounts.models import SpendCounter, Workspace
from accounts.services.records import SYSTEM
from accounts.services.workspaces import change_workspace
from accounts.spending import build_tag_scopes, read_tag_budgets
from routing.ledger.orders import Payer
from tests.routing.ledger.books import (
    CENT,
    is_refused,
    placed,
    renewed,
    settle,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def set_limits(payer: Payer, **cents: int) -> None:
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


def asking(payer: Payer, **tags: str) -> Payer:
    """The payer of a request with these tags, as the limits are now."""
    fresh = renewed(payer)
    budgets = read_tag_budgets(Workspace.objects.get(pk=payer.workspace_id))
    return fresh._replace(budgets=(*fresh.budgets, *build_tag_scopes(budgets, tags)))


def counters(payer: Payer) -> list[Any]:
    rows = SpendCounter.objects.filter(scope="tag", account=payer.account_id)
    return sorted(rows.values_list("spent_nano", "held_nano"))


def test_each_value_has_the_default_and_some_their_own(writer, payer) -> None:
    set_limits(payer, team__all=10, team__search=50)
    settle(writer, placed(writer, asking(payer, team="blue"), 8 * CENT), 8 * CENT)

    assert is_refused(writer, asking(payer, team="blue"), 3 * CENT)
    placed(writer, asking(payer, team="red", feature="x"), 10 * CENT)
    assert is_refused(writer, asking(payer, team="red"), 1)
    placed(writer, asking(payer, team="search"), 45 * CENT)
    # Nothing else holds who says nothing of a team.
    placed(writer, asking(payer, feature="team"), 12 * CENT)
    assert counters(payer) == [(0, 10 * CENT), (0, 45 * CENT), (8 * CENT, 0)]


def test_a_request_with_two_such_tags_is_held_to_both(writer, payer) -> None:
    set_limits(payer, team__all=10, feature__all=15)
    both = {"team": "blue", "feature": "chat"}
    settle(writer, placed(writer, asking(payer, **both), 9 * CENT), 9 * CENT)

    assert is_refused(writer, asking(payer, **both), 2 * CENT)
    assert is_refused(writer, asking(payer, team="red", feature="chat"), 7 * CENT)
    placed(writer, asking(payer, team="red", feature="chat"), 6 * CENT)
    assert counters(payer) == [(0, 6 * CENT), (9 * CENT, 0), (9 * CENT, 6 * CENT)]


def test_a_limit_of_its_own_keeps_what_was_spent_and_what_is_under_way(writer, payer) -> None:
    set_limits(payer, team__all=10)
    settle(writer, placed(writer, asking(payer, team="blue"), 6 * CENT), 6 * CENT)
    under_way = placed(writer, asking(payer, team="blue"), 3 * CENT)

    set_limits(payer, team__all=10, team__blue=20)

    assert is_refused(writer, asking(payer, team="blue"), 11 * CENT + 1)
    settle(writer, under_way, 2 * CENT)
    placed(writer, asking(payer, team="blue"), 12 * CENT)
    assert counters(payer) == [(8 * CENT, 12 * CENT)]
