"""Credits: what moved the balance, what is held, and who may read it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from accounts.models import Hold
from accounts.services.books.credits import add_credits, take_payment
from console.scope import find_scope_of_account
from console.views.credits import (
    Month,
    read_expiry,
    read_holds,
    read_pace_nano,
    read_statement,
)
from tests.console.people import Team, ask, make_team
from tests.console.things import count_spending

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def team() -> Team:
    team = make_team("acme")
    add_credits(account=team.account, amount_nano=5 * 10**9, source="test", source_ref="one")
    team.account.refresh_from_db()
    return team


def charge(team: Team, key: str, nano: int, day: datetime) -> None:
    """As the ledger writer counts it."""
    count_spending(team.keys[key], nano, "day", day.date())
    team.account.total_usage_nano += nano
    team.account.save(update_fields=["total_usage_nano"])


def test_a_statement_adds_up_over_months(team: Team) -> None:
    now = datetime.now(UTC)
    this, before = Month.read("", now.date()), Month.read("", now.date()).before
    charge(team, "own", 1_000, now)
    charge(team, "far", 200, now)
    charge(team, "own", 30, datetime.combine(before.first, datetime.min.time(), UTC))

    statement, earlier = read_statement(team.account, this), read_statement(team.account, before)

    assert statement.closing_nano == team.account.balance_nano == 5 * 10**9 - 1_230
    assert [row.amount_nano for row in statement.rows] == [-1_200, 5 * 10**9]
    assert [row.balance_nano for row in statement.rows] == [5 * 10**9 - 1_230, 5 * 10**9 - 30]
    assert statement.opening_nano == earlier.closing_nano == -30
    assert earlier.opening_nano == 0
    # A month that has not come is this one.
    assert Month.read("9999-01", now.date()) == this


def test_a_payment_shows_what_was_kept_of_it(team: Team, settings: object) -> None:
    settings.CREDIT_FEE_RATE = 0.05  # type: ignore[attr-defined]  # pytest-django's.
    take_payment(account=team.account, paid_nano=10**10, source="bank", source_ref="p-1")

    text = team.client("admin").get(reverse("console:credits")).text

    for label, amount in (("Paid", "$10.00"), ("Fee", "$0.50"), ("Credited", "$9.50")):
        assert f'data-label="{label}">{amount}<' in text
    rows = team.client("admin").get(reverse("console:credits"), {"csv": "1"}).text
    assert "10,0.5,9.5,bank,p-1" in rows


def test_the_pace_is_of_all_the_account_whichever_view_is_chosen(team: Team) -> None:
    now = datetime.now(UTC)
    team.account.created_at = now - timedelta(days=4)
    team.account.save(update_fields=["created_at"])
    ask(team.keys["own"], "gen-new", ago=timedelta(hours=30), charge_nano=8 * 10**8 - 3 * 4_400)
    scope = find_scope_of_account(team.people["admin"], team.account.pk)
    for view in scope.views:
        # A younger account is judged by its own days.
        assert round(read_pace_nano(replace(scope, view=view), now)) == 2 * 10**8
    text = team.client("admin").get(reverse("console:credits"), {"view": "mine"}).text
    assert "about 25 days" in text


def test_holds_are_reconciled_with_the_account(team: Team) -> None:
    now = datetime.now(UTC)
    key = team.keys["own"]
    assert key.workspace is not None
    for number, lease in enumerate((timedelta(minutes=1), timedelta(minutes=-1))):
        Hold.objects.create(
            generation_id=f"gen-{number}",
            account=key.account,
            api_key=key,
            workspace=key.workspace,
            amount_nano=500,
            counter_ids="0",
            model="acme/one",
            created_at=now,
            lease_expires_at=now + lease,
        )
    assert not read_holds(team.account).agree
    team.account.held_nano = 1_000
    team.account.save(update_fields=["held_nano"])

    holds = read_holds(team.account)

    assert (holds.agree, holds.count, holds.sum_nano) == (True, 2, 1_000)
    path, query = reverse("console:credits"), {"csv": "holds"}
    rows = team.client("admin").get(path, query).text.splitlines()
    assert [row.split(",")[1] for row in rows] == ["State", "in flight", "late"]


def test_what_expires_soon_is_told(team: Team, settings: object) -> None:
    now = datetime.now(UTC)
    assert read_expiry(team.account, now).days is None
    settings.CREDIT_EXPIRY_DAYS = 10  # type: ignore[attr-defined]  # pytest-django's.
    assert read_expiry(team.account, now) == (10, 5 * 10**9)
    settings.CREDIT_EXPIRY_DAYS = 400  # type: ignore[attr-defined]  # pytest-django's.
    assert read_expiry(team.account, now) == (400, 0)
