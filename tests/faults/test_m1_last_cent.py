"""M1: the last cent is spent once, whatever comes at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from routing.metering.orders import Payer, Refusal
from routing.metering.session import Session
from tests.routing.metering.books import (
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.metering.sessions import UnguardedSession
from tests.routing.metering.spenders import spend_at_once, task_for
from tests.support.bed import Bed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
PRICE_NANO = 7_000_000
# 142 times $0.007 is $0.994; one more would be $1.001.
AFFORDABLE = 142
RESETS = {"total": None, "day": "daily", "week": "weekly", "month": "monthly"}


def served_of(
    payer: Payer, *, requests: int, threads: int = 64, session: type[Session] = Session
) -> int:
    """Hold and settle that many times, `threads` at a time; how many holds were placed."""
    barrier = threading.Barrier(threads)

    def spend(share: int) -> int:
        served = 0
        barrier.wait()
        for _ in range(share):
            hold = hold_order(payer, PRICE_NANO)
            if not isinstance(carry_out(writer, hold), Refusal):
                assert carry_out(writer, settle_order(hold, PRICE_NANO)) is True
                served += 1
        return served

    shares = [requests // threads + (number < requests % threads) for number in range(threads)]
    with running_writer(session) as writer, ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(spend, shares))


def test_a_thousand_requests_spend_one_dollar_once() -> None:
    payer = new_payer(USD)

    assert served_of(payer, requests=1000) == AFFORDABLE

    assert totals(payer) == (USD, AFFORDABLE * PRICE_NANO, 0)
    assert open_holds(payer) == []
    assert_books_agree()


def test_without_the_guard_the_same_thousand_overspend() -> None:
    payer = new_payer(USD)

    served = served_of(payer, requests=1000, session=UnguardedSession)

    assert served == 1000
    _, usage_nano, _ = totals(payer)
    assert usage_nano > USD


@pytest.mark.parametrize("window", RESETS)
def test_a_key_spends_its_limit_once_in_each_window(window: str) -> None:
    payer = new_payer(100 * USD, limit_nano=USD, limit_reset=RESETS[window])

    assert served_of(payer, requests=300) == AFFORDABLE

    assert key_counters(payer)[window] == (AFFORDABLE * PRICE_NANO, 0)
    assert totals(payer) == (100 * USD, AFFORDABLE * PRICE_NANO, 0)
    assert_books_agree()


def test_without_the_guard_a_key_passes_its_limit() -> None:
    payer = new_payer(100 * USD, limit_nano=USD, limit_reset="daily")

    assert served_of(payer, requests=300, session=UnguardedSession) == 300

    assert key_counters(payer)["day"][0] > USD


@pytest.mark.parametrize("window", RESETS)
def test_fifty_first_requests_of_a_new_key_do_not_pass_its_limit(window: str) -> None:
    payer = new_payer(100 * USD, limit_nano=10 * PRICE_NANO, limit_reset=RESETS[window])

    assert served_of(payer, requests=50, threads=50) == 10

    assert key_counters(payer)[window] == (10 * PRICE_NANO, 0)
    assert len(key_counters(payer)) == 4
    assert_books_agree()


def test_two_processes_spend_one_dollar_once(stores: Bed) -> None:
    payer = new_payer(USD)
    task = task_for(payer, requests=300, nano=PRICE_NANO)

    spent = spend_at_once(stores, task, task)

    assert (spent.served, spent.refused, spent.failed) == (AFFORDABLE, 600 - AFFORDABLE, 0)
    assert totals(payer) == (USD, AFFORDABLE * PRICE_NANO, 0)
    assert_books_agree()


def test_two_processes_without_the_guard_overspend(stores: Bed) -> None:
    payer = new_payer(USD)
    task = task_for(payer, requests=150, nano=PRICE_NANO, guarded=False)

    assert spend_at_once(stores, task, task).served == 300

    assert totals(payer)[1] > USD


def test_two_processes_that_make_a_new_key_s_counters_at_once_share_its_limit(
    stores: Bed,
) -> None:
    payer = new_payer(100 * USD, limit_nano=10 * PRICE_NANO, limit_reset="monthly")
    task = task_for(payer, requests=25, nano=PRICE_NANO, threads=25)

    assert spend_at_once(stores, task, task).served == 10

    assert key_counters(payer)["month"] == (10 * PRICE_NANO, 0)
    assert_books_agree()


def test_two_processes_in_opposite_account_order_never_wait_for_each_other(stores: Bed) -> None:
    # Few threads and two accounts: a batch often settles for one account and holds for the other.
    payers = [new_payer(100 * USD) for _ in range(2)]
    there = task_for(*payers, requests=300, nano=PRICE_NANO, threads=8)
    back = task_for(*reversed(payers), requests=300, nano=PRICE_NANO, threads=8)

    spent = spend_at_once(stores, there, back)

    assert (spent.served, spent.failed) == (600, 0)
    assert "deadlock" not in spent.stderr
    assert sum(totals(payer)[1] for payer in payers) == 600 * PRICE_NANO
    assert_books_agree()
