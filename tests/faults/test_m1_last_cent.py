"""M1: the last cent is spent once, whatever comes at the same moment. M10: the audit finds whatever
was changed by hand, by a single nano-dollar."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F

from accounts.models import Account, Hold, LedgerEntry, SpendCounter
from accounts.services.books.audit import compare_books
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.tasks import audit_books
from routing.ledger.orders import HoldRefusal, Payer
from routing.ledger.session import LedgerSession
from tests.routing.ledger.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    renew_payer,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.ledger.sessions import UnguardedSession
from tests.routing.ledger.spenders import spend_at_once, task_for
from tests.support.bed import Bed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
PRICE_NANO = 33_500_000
# 29 times $0.0335 is $0.9715; one more would be $1.005.
AFFORDABLE = 29
RESETS = {"total": None, "day": "daily", "week": "weekly", "month": "monthly"}


def served_of(payer: Payer, *, requests: int, session: type[LedgerSession] = LedgerSession) -> int:
    """Hold and settle that many times, fifty at a time; how many holds were placed."""
    threads = 50
    barrier = threading.Barrier(threads)

    def spend(share: int) -> int:
        served = 0
        barrier.wait()
        for _ in range(share):
            hold = hold_order(payer, PRICE_NANO)
            if not isinstance(carry_out(writer, hold), HoldRefusal):
                assert carry_out(writer, settle_order(hold, PRICE_NANO)) is True
                served += 1
        return served

    shares = [requests // threads + (number < requests % threads) for number in range(threads)]
    with running_writer(session) as writer, ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(spend, shares))


@pytest.mark.parametrize("requests", [150, pytest.param(1000, marks=pytest.mark.nightly)])
def test_many_requests_spend_one_dollar_once(requests: int) -> None:
    payer = new_payer(USD)

    assert served_of(payer, requests=requests) == AFFORDABLE

    assert totals(payer) == (USD, AFFORDABLE * PRICE_NANO, 0)
    assert open_holds(payer) == []
    assert_books_agree()


def test_without_the_guard_they_overspend_and_pass_a_key_s_limit() -> None:
    payer = new_payer(USD, limit_nano=USD, limit_reset="daily")

    assert served_of(payer, requests=60, session=UnguardedSession) == 60

    assert totals(payer)[1] > USD
    assert key_counters(payer)["day"][0] > USD


@pytest.mark.parametrize("window", RESETS)
def test_a_new_key_spends_its_limit_once_in_each_window(window: str) -> None:
    """Its counters are made by the first fifty requests, all at once."""
    payer = new_payer(100 * USD, limit_nano=USD, limit_reset=RESETS[window])

    assert served_of(payer, requests=60) == AFFORDABLE

    assert key_counters(payer)[window] == (AFFORDABLE * PRICE_NANO, 0)
    assert len(key_counters(payer)) == 4
    assert totals(payer) == (100 * USD, AFFORDABLE * PRICE_NANO, 0)
    assert_books_agree()


def test_two_processes_spend_one_dollar_once(stores: Bed) -> None:
    payer = new_payer(USD)
    task = task_for(payer, requests=60, nano=PRICE_NANO)

    spent = spend_at_once(stores, task, task)

    assert (spent.served, spent.refused, spent.failed) == (AFFORDABLE, 120 - AFFORDABLE, 0)
    assert totals(payer) == (USD, AFFORDABLE * PRICE_NANO, 0)
    assert_books_agree()


def test_two_processes_in_opposite_account_order_never_wait_for_each_other(stores: Bed) -> None:
    # Few threads and two accounts: a batch often settles for one account and holds for the other.
    payers = [new_payer(100 * USD) for _ in range(2)]
    there = task_for(*payers, requests=100, nano=PRICE_NANO, threads=8)
    back = task_for(*reversed(payers), requests=100, nano=PRICE_NANO, threads=8)

    spent = spend_at_once(stores, there, back)

    assert (spent.served, spent.failed) == (200, 0)
    assert "deadlock" not in spent.stderr
    assert sum(totals(payer)[1] for payer in payers) == 200 * PRICE_NANO
    assert_books_agree()


# --- M10: the audit -------------------------------------------------------------------------------


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


def list_planted(payer: Payer) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """What is wrong, the row, and how it is changed; None: it is deleted."""
    mine = {"account_id": payer.account_id}
    for column in ("total_credits_nano", "total_usage_nano", "held_nano"):
        yield column, Account.objects.filter(pk=payer.account_id), {column: F(column) + 1}
    for kind in ("purchase", "usage"):
        entries = LedgerEntry.objects.filter(**mine, kind=kind)
        yield f"{kind} entry", entries, {"amount_nano": F("amount_nano") + 1}
    yield "no usage entry", LedgerEntry.objects.filter(**mine, kind="usage"), None
    yield "hold", Hold.objects.filter(**mine), {"amount_nano": F("amount_nano") - 1}
    yield "no hold", Hold.objects.filter(**mine), None
    for window in ("total", "day", "week", "month"):
        counter = SpendCounter.objects.filter(scope_id=str(payer.key_id), window=window)
        for column in ("spent_nano", "held_nano"):
            yield f"{column} of a {window}", counter, {column: F(column) + 1}
        # Given to another key; deleting it is the case of its own below.
        yield f"no counter of a {window}", counter, {"scope_id": "0"}


def test_one_nano_changed_by_hand_is_found_and_named(payer: Payer) -> None:
    names = (str(payer.account_id), f"key {payer.key_id}", "key 0")
    for what, rows, change in list_planted(payer):
        (as_it_was,) = rows.values()
        same = rows.model.objects.filter(pk=rows.get().pk)
        same.delete() if change is None else same.update(**change)

        found = compare_books(now=datetime.now(UTC)).mismatches
        assert found, what
        assert all(any(name in sentence for name in names) for sentence in found), what
        rows.model.objects.create(**as_it_was) if change is None else same.update(**as_it_was)
    assert compare_books(now=datetime.now(UTC)).mismatches == []


def test_a_counter_that_was_deleted_under_a_hold_is_missed(payer: Payer) -> None:
    SpendCounter.objects.filter(scope_id=str(payer.key_id), window="day").delete()

    found = compare_books(now=datetime.now(UTC)).mismatches

    assert len(found) == 2
    assert any("is gone" in sentence for sentence in found)


def test_the_command_ends_with_1_and_says_what_disagrees(payer: Payer) -> None:
    Account.objects.filter(pk=payer.account_id).update(total_usage_nano=F("total_usage_nano") + 1)

    status, told = command()

    assert status == 1
    assert told["mismatches"] == [
        f"account {payer.account_id}: total_usage says 70000001, entries say 70000000"
    ]


@pytest.mark.parametrize("column", ["spent_nano", "byok_spent_nano"])
def test_a_budget_s_counter_that_is_off_is_named_and_put_right(payer: Payer, column: str) -> None:
    where: Any = {"account_id": payer.account_id, "reference": "default", "interval": "weekly"}
    set_budget(**where, limit_nano=USD, include_byok=None, by=SYSTEM)
    with running_writer() as writer:
        # Requests are under way, so it is put on by the next one.
        assert carry_out(writer, hold_order(renew_payer(payer), 0)) is True
    assert compare_books(now=datetime.now(UTC)).mismatches == []
    budget = SpendCounter.objects.filter(scope="workspace")
    before = list(budget.values())
    assert budget.update(**{column: F(column) + 1}) == 1

    assert audit_books() == 1

    found = compare_books(now=datetime.now(UTC)).mismatches
    assert found == []
    assert list(budget.values()) == before


def test_holds_past_their_lease_are_counted() -> None:
    who = new_payer(USD)
    with running_writer() as writer:
        carry_out(writer, hold_order(who, 0))
        carry_out(writer, hold_order(who, CENT, lease_s=-1))

    assert command()[1]["expired_holds"] == 1
