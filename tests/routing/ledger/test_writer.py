"""What the ledger writer promises its waiters while nothing breaks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from accounts.models import Account
from gateway.http.errors import Unavailable
from routing.ledger.orders import HoldRefusal, Payer, TopUpOrder
from routing.ledger.session import LedgerSession
from routing.ledger.tickets import Ticket
from routing.ledger.writer import LedgerWriter
from tests.routing.ledger.books import (
    CENT,
    USD,
    carry_out,
    entries,
    hold_order,
    is_refused,
    key_counters,
    new_payer,
    open_holds,
    payer_with_new_key,
    place_standing,
    read_record,
    release_order,
    running_writer,
    settle,
    settle_order,
    totals,
    wait_all,
)
from tests.routing.ledger.sessions import held_up, in_one_batch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.parametrize("charge_nano", [0, 12 * CENT, 45 * CENT], ids=["free", "less", "overrun"])
def test_a_request_is_held_then_charged_what_it_cost(writer, charge_nano: int) -> None:
    payer = new_payer(USD, limit_nano=USD, limit_reset="daily")

    hold = place_standing(writer, payer, 30 * CENT)

    assert totals(payer) == (USD, 0, 30 * CENT)
    assert key_counters(payer)["day"] == (0, 30 * CENT)
    assert key_counters(payer)["week"] == (0, 0)  # Only what has a limit is held on.
    settle(writer, hold, charge_nano)
    assert totals(payer) == (USD, charge_nano, 0)
    assert entries(payer) == [charge_nano]
    assert set(key_counters(payer).values()) == {(charge_nano, 0)}
    assert read_record(hold, "charge_nano", "hold_nano", "lost") == (charge_nano, 30 * CENT, False)


def test_a_free_call_asks_for_no_money_but_that_none_is_owed(writer) -> None:
    payer = new_payer(CENT)
    dear = place_standing(writer, payer, CENT)
    settle(writer, place_standing(writer, payer, 0), 0)
    settle(writer, dear, 2 * CENT)
    outcome = carry_out(writer, hold_order(payer, 0))
    assert isinstance(outcome, HoldRefusal)
    assert outcome.balance_nano == -CENT
    assert entries(payer) == [0, 2 * CENT]


def test_a_refusal_says_what_was_there(writer) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT, limit_reset="weekly")
    settle(writer, place_standing(writer, payer, 10 * CENT), 10 * CENT)
    place_standing(writer, payer, 30 * CENT)

    assert carry_out(writer, hold_order(payer, 20 * CENT)) == HoldRefusal(
        asked_nano=20 * CENT,
        balance_nano=90 * CENT,
        held_nano=30 * CENT,
        key_left_nano=40 * CENT,
        key_held_nano=30 * CENT,
        key_reset="weekly",
    )


def test_a_raised_hold_is_raised_on_everything_it_counts_against(writer) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    hold = place_standing(writer, payer, 20 * CENT)

    assert carry_out(writer, TopUpOrder(hold.generation_id, payer, 30 * CENT)) is True

    assert (open_holds(payer), key_counters(payer)["total"]) == ([50 * CENT], (0, 50 * CENT))
    refused = carry_out(writer, TopUpOrder(hold.generation_id, payer, 1))
    # Told as what it would be as a whole, beside what other requests hold.
    assert refused == HoldRefusal(50 * CENT + 1, USD, 0, 50 * CENT, 0, None)
    assert open_holds(payer) == [50 * CENT]
    settle(writer, hold, 45 * CENT)
    assert totals(payer) == (USD, 45 * CENT, 0)


def test_a_hold_that_is_gone_cannot_be_raised(writer, payer) -> None:
    hold = place_standing(writer, payer, CENT)
    carry_out(writer, release_order(hold))
    assert carry_out(writer, TopUpOrder(hold.generation_id, payer, CENT)) is False
    assert totals(payer) == (USD, 0, 0)


def test_a_hold_settles_in_the_windows_it_was_placed_in(writer) -> None:
    before_midnight = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
    payer = new_payer(USD, limit_nano=USD, limit_reset="daily", at=before_midnight)
    tomorrow = dict(payer.windows) | {"day": (before_midnight + timedelta(days=1)).date()}
    later = Payer(payer.account_id, payer.workspace_id, payer.key_id, tuple(tomorrow.items()))

    settle(writer, place_standing(writer, payer, 60 * CENT), 60 * CENT)

    assert is_refused(writer, payer, 50 * CENT)
    place_standing(writer, later, 40 * CENT)
    assert key_counters(payer)["day"] == (60 * CENT, 0)
    assert key_counters(later)["day"] == (0, 40 * CENT)


def test_settled_fifty_times_at_once_by_two_writers_counts_once(writer, payer) -> None:
    # Enough is held that a second release would not be refused.
    hold, _ = place_standing(writer, payer, 10 * CENT), place_standing(writer, payer, 50 * CENT)
    with running_writer() as other, ThreadPoolExecutor(50) as pool:
        orders = [settle_order(hold, 10 * CENT) for _ in range(50)]
        assert list(pool.map(carry_out, [writer, other] * 25, orders)) == [True] * 50
    assert entries(payer) == [10 * CENT]
    assert totals(payer) == (USD, 10 * CENT, 50 * CENT)


@pytest.mark.parametrize("released_first", [True, False])
def test_released_and_settled_in_one_batch_it_is_charged_and_freed_once(
    writer, commits, released_first: bool
) -> None:
    payer = new_payer(USD)
    hold, _ = place_standing(writer, payer, 10 * CENT), place_standing(writer, payer, 50 * CENT)
    closing: list[Any] = [release_order(hold), settle_order(hold, 7 * CENT)]
    in_order = closing if released_first else closing[::-1]
    assert in_one_batch(writer, commits, in_order) == [True, True]
    assert commits.count == 2
    assert totals(payer) == (USD, 7 * CENT, 50 * CENT)


def test_fifty_orders_that_wait_for_a_commit_share_the_next_one(writer, commits) -> None:
    payers = [new_payer(USD) for _ in range(5)]
    orders = [hold_order(payers[n % 5], CENT) for n in range(50)]
    assert in_one_batch(writer, commits, orders) == [True] * 50
    assert commits.count == 2  # The one that was held up, and one for all the others.
    assert [open_holds(payer) for payer in payers] == [[CENT] * 10] * 5


def test_holds_that_do_not_fit_together_are_placed_in_order_of_arrival(writer, commits) -> None:
    payer = new_payer(10 * CENT)
    account = Account.objects.get(pk=payer.account_id)
    second_key = payer_with_new_key(account, limit_nano=2 * CENT, limit_reset="daily")
    asked = [(payer, 4), (second_key, 3), (payer, 5), (second_key, 2), (payer, 1), (payer, 0)]

    orders = [hold_order(who, cents * CENT) for who, cents in asked]
    outcomes = [told is True for told in in_one_batch(writer, commits, orders)]

    # 4 fits; 3 passes the second key's limit; 5 fits; 2 passes the balance; 1 fits; free always.
    assert outcomes == [True, False, True, False, True, True]
    assert totals(payer) == (10 * CENT, 0, 10 * CENT)


def test_money_freed_in_a_batch_is_there_for_the_holds_of_the_same_batch(writer, commits) -> None:
    payer = new_payer(10 * CENT)
    held = place_standing(writer, payer, 10 * CENT)
    orders = [hold_order(payer, 6 * CENT), settle_order(held, 4 * CENT)]
    assert in_one_batch(writer, commits, orders) == [True, True]
    assert totals(payer) == (10 * CENT, 4 * CENT, 6 * CENT)


def test_the_queue_is_bounded_but_settlements_always_fit(writer, commits, settings, payer) -> None:
    settings.LEDGER_QUEUE_MAX = 3
    held = place_standing(writer, payer, CENT)
    held_up(writer, commits)

    queued = [writer.submit(hold_order(payer, CENT)) for _ in range(3)]
    with pytest.raises(Unavailable):
        writer.submit(hold_order(payer, CENT))
    queued.append(writer.submit(settle_order(held, CENT)))
    commits.go_on.set()

    assert wait_all(writer, queued) == [True] * 4
    assert totals(payer) == (USD, CENT, 3 * CENT)


def test_billing_that_is_not_enforced_lets_the_balance_go_but_not_the_key_limit(
    writer, settings
) -> None:
    settings.BILLING_ENFORCED = False
    payer = new_payer(0, limit_nano=5 * CENT)
    place_standing(writer, payer, 5 * CENT)
    assert is_refused(writer, payer, 1)
    assert totals(payer) == (0, 0, 5 * CENT)


class Meeting:
    """Opens sessions that wait for each other with their first settlement carried out. The twin's
    are `hasty`: they do not lock all accounts of a batch in one go, in primary-key order."""

    def __init__(self, *, hasty: bool = False) -> None:
        self.hasty = hasty
        self.barrier = threading.Barrier(2)
        self.deadlocks: list[Exception] = []

    def open(self) -> LedgerSession:
        return _MeetingSession(self)


class _MeetingSession(LedgerSession):
    def __init__(self, meeting: Meeting) -> None:
        super().__init__()
        self._meeting = meeting

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        if self._meeting.hasty and sql.endswith("FOR NO KEY UPDATE"):
            return None
        try:
            cursor = super().execute(sql, parameters)
        except psycopg.errors.DeadlockDetected as error:
            self._meeting.deadlocks.append(error)
            raise
        if sql.startswith("UPDATE accounts_account SET total_usage_nano"):
            # Where the locks are right, the other one never comes.
            with suppress(threading.BrokenBarrierError):
                self._meeting.barrier.wait(0.3)
        return cursor


@pytest.mark.parametrize("hasty", [False, True])
def test_a_batch_that_settles_for_one_account_and_holds_for_another_cannot_deadlock(
    writer, hasty: bool, stores
) -> None:
    if hasty and not stores.is_postgres:
        return  # SQLite has one writer at a time: nobody deadlocks.
    payers = sorted((new_payer(USD), new_payer(USD)), key=lambda payer: payer.account_id)
    held = [place_standing(writer, payer, CENT) for payer in payers]
    meeting = Meeting(hasty=hasty)

    with running_writer(meeting.open) as one, running_writer(meeting.open) as two:
        tickets = []
        for each, settles, holds in ((one, 0, 1), (two, 1, 0)):
            batch = [settle_order(held[settles], CENT), hold_order(payers[holds], CENT)]
            tickets.append((each, _together(each, batch)))
        assert [wait_all(each, those) for each, those in tickets] == [[True, True]] * 2

    assert bool(meeting.deadlocks) is hasty


def _together(writer: LedgerWriter, orders: list[Any]) -> list[Ticket]:
    """Submit so that one transaction takes them all: the writer starts with the last one."""
    early = [Ticket(order) for order in orders[:-1]]
    writer._queue.extend(early)
    return [*early, writer.submit(orders[-1])]
