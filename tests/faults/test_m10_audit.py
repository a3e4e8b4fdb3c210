"""M10: the audit finds whatever was changed by hand, by a single nano-dollar."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F

from accounts.models import Account, Hold, LedgerEntry, SpendCounter
from accounts.services.audit import audit
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.tasks import audit_books
from routing.metering.orders import Payer
from tests.routing.metering.books import (
    CENT,
    USD,
    carry_out,
    hold_order,
    new_payer,
    renewed,
    running_writer,
    settle_order,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def payer() -> Payer:
    """Someone who bought, spent, and has a request in flight; somebody else did too."""
    for who in (payer := new_payer(USD, limit_nano=USD, limit_reset="daily"), new_payer(USD)):
        with running_writer() as writer:
            spent = hold_order(who, 10 * CENT)
            carry_out(writer, spent)
            carry_out(writer, settle_order(spent, 7 * CENT))
            carry_out(writer, hold_order(who, 5 * CENT))
    return payer


def command() -> tuple[int, dict[str, Any]]:
    out = StringIO()
    try:
        call_command("audit_ledger", "--json", stdout=out)
    except SystemExit as end:
        return int(end.code or 0), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())


def test_books_that_agree_are_said_to(payer: Payer) -> None:
    status, told = command()

    assert (status, told["mismatches"], told["accounts"]) == (0, [], 2)
    assert (told["open_holds"], told["held"], told["expired_holds"]) == (2, 0.1, 0)


def _account(payer: Payer, column: str) -> None:
    Account.objects.filter(pk=payer.account_id).update(**{column: F(column) + 1})


def _counter(payer: Payer, window: str, column: str) -> None:
    rows = SpendCounter.objects.filter(scope_id=str(payer.key_id), window=window)
    assert rows.update(**{column: F(column) + 1}) == 1


def _entry(payer: Payer, kind: str) -> None:
    rows = LedgerEntry.objects.filter(account_id=payer.account_id, kind=kind)
    assert rows.update(amount_nano=F("amount_nano") + 1) == 1


def _hold(payer: Payer) -> None:
    rows = Hold.objects.filter(account_id=payer.account_id)
    assert rows.update(amount_nano=F("amount_nano") - 1) == 1


def _no_entry(payer: Payer) -> None:
    assert LedgerEntry.objects.filter(account_id=payer.account_id, kind="usage").delete()[0] == 1


def _no_hold(payer: Payer) -> None:
    assert Hold.objects.filter(account_id=payer.account_id).delete()[0] == 1


def _no_counter(payer: Payer, window: str) -> None:
    # Given to another key; deleting it is the case of its own below.
    rows = SpendCounter.objects.filter(scope_id=str(payer.key_id), window=window)
    assert rows.update(scope_id="0") == 1


PLANTED: dict[str, Callable[[Payer], None]] = {
    "credits": lambda payer: _account(payer, "total_credits_nano"),
    "usage": lambda payer: _account(payer, "total_usage_nano"),
    "held": lambda payer: _account(payer, "held_nano"),
    "purchase entry": lambda payer: _entry(payer, "purchase"),
    "usage entry": lambda payer: _entry(payer, "usage"),
    "usage entry gone": _no_entry,
    "hold": _hold,
    "hold gone": _no_hold,
}
for _window in ("total", "day", "week", "month"):
    PLANTED[f"{_window} spent"] = lambda payer, w=_window: _counter(payer, w, "spent_nano")  # type: ignore[misc]  # The default pins the loop's value.
    PLANTED[f"{_window} held"] = lambda payer, w=_window: _counter(payer, w, "held_nano")  # type: ignore[misc]  # Likewise.
    PLANTED[f"{_window} counter gone"] = lambda payer, w=_window: _no_counter(payer, w)  # type: ignore[misc]  # Likewise.


@pytest.mark.parametrize("what", PLANTED)
def test_one_nano_changed_by_hand_is_found_and_named(payer: Payer, what: str) -> None:
    PLANTED[what](payer)

    found = audit(now=datetime.now(UTC)).mismatches
    assert found
    names = (str(payer.account_id), f"key {payer.key_id}", "key 0")
    assert all(any(name in sentence for name in names) for sentence in found)


def test_a_counter_that_was_deleted_under_a_hold_is_missed(payer: Payer) -> None:
    SpendCounter.objects.filter(scope_id=str(payer.key_id), window="day").delete()

    found = audit(now=datetime.now(UTC)).mismatches

    assert len(found) == 2
    assert any("is gone" in sentence for sentence in found)


def test_the_command_ends_with_1_and_says_what_disagrees(payer: Payer) -> None:
    PLANTED["usage"](payer)

    status, told = command()

    assert status == 1
    assert told["mismatches"] == [
        f"account {payer.account_id}: total_usage says 70000001, entries say 70000000"
    ]


@pytest.mark.parametrize("column", ["spent_nano", "byok_spent_nano"])
def test_a_budget_s_counter_that_is_off_is_named_and_put_right(payer: Payer, column: str) -> None:
    set_budget(
        account_id=payer.account_id,
        reference="default",
        interval="weekly",
        limit_nano=USD,
        include_byok=None,
        by=SYSTEM,
    )
    with running_writer() as writer:
        # Requests are under way, so it is put on by the next one.
        assert carry_out(writer, hold_order(renewed(payer), 0)) is True
    assert audit(now=datetime.now(UTC)).mismatches == []
    budget = SpendCounter.objects.filter(scope="workspace")
    before = list(budget.values())
    assert budget.update(**{column: F(column) + 1}) == 1

    assert audit_books() == 1

    found = audit(now=datetime.now(UTC)).mismatches
    assert found == []
    assert list(budget.values()) == before


def test_holds_past_their_lease_are_counted() -> None:
    who = new_payer(USD)
    with running_writer() as writer:
        carry_out(writer, hold_order(who, 0))
        carry_out(writer, hold_order(who, CENT, lease_s=-1))

    assert command()[1]["expired_holds"] == 1
