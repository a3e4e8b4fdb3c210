"""One order as one statement: it sees what others did while it waited for its rows."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from accounts.models import SpendCounter
from routing.metering.alone import hold_alone, settle_alone
from routing.metering.counters import CounterSet
from routing.metering.orders import HoldOrder, Payer
from routing.metering.session import CONSTRAINT_ERRORS, NotAsExpected, Session
from tests.routing.metering.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    entries,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    placed,
    running_writer,
    settle,
    settle_order,
    totals,
)

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"
ENOUGH_OR_NOT = pytest.mark.parametrize(
    ("left", "stands"), [(10 * CENT, True), (10 * CENT - 1, False)]
)


class Order:
    """Orders of a payer, each alone in a transaction of this session."""

    def __init__(self, session: Session, payer: Payer) -> None:
        self.session, self.payer = session, payer
        with running_writer() as writer:  # It makes the counters.
            settle(writer, placed(writer, payer, CENT), 0)
        rows = SpendCounter.objects.filter(scope_id=str(payer.key_id)).order_by("id")
        limited = rows.filter(limit_nano__isnull=False)
        every, bound = (tuple(each.values_list("id", flat=True)) for each in (rows, limited))
        self.ids = CounterSet(every, bound)

    def place(self, order: HoldOrder) -> bool:
        """Whether it stands."""
        ids = self.ids.limited
        return self._alone(lambda: hold_alone(self.session, order, ids, enforced=True))

    def settle(self, hold: HoldOrder, charge_nano: int) -> bool:
        order = settle_order(hold, charge_nano)._replace(held_nano=hold.amount_nano)
        return self._alone(lambda: settle_alone(self.session, order, self.ids))

    def _alone(self, work: Callable[[], None]) -> bool:
        try:
            with self.session.flight():
                self.session.begin(alone=True)
                work()
                self.session.commit()
        except (NotAsExpected, *CONSTRAINT_ERRORS):
            return False
        return True


@pytest.fixture
def sessions(transactional_db: None) -> Iterator[tuple[Session, Session]]:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    pair = Session(), Session()
    yield pair
    for session in pair:
        session.close()


def after_a_wait(
    other: Session, mine: Session, work: Callable[[], bool], *changes: tuple[str, list[Any]]
) -> bool:
    """What `work` of my session comes to when the other one changes rows that it waits for."""
    pid = mine.execute("SELECT pg_backend_pid()").fetchone()[0]
    other.begin()
    for sql, parameters in changes:
        other.execute(sql, parameters)
    verdict: list[bool] = []
    thread = threading.Thread(target=lambda: verdict.append(work()))
    thread.start()
    until = time.monotonic() + WAIT_S
    while not other.execute(BLOCKED, [pid]).fetchone()[0]:
        assert time.monotonic() < until
    other.commit()
    thread.join(WAIT_S)
    return verdict[0]


@pytest.mark.parametrize("taken", ["total_usage_nano", "held_nano"])
@ENOUGH_OR_NOT
def test_a_hold_sees_a_balance_that_was_taken_while_it_waited(
    sessions: tuple[Session, Session], taken: str, left: int, stands: bool
) -> None:
    payer = new_payer(USD)
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    take = f"UPDATE accounts_account SET {taken} = %s WHERE id = %s"  # noqa: S608 - A column named above.

    change = (take, [USD - left, payer.account_id])
    assert after_a_wait(*sessions, lambda: mine.place(hold), change) is stands

    assert open_holds(payer) == ([10 * CENT] if stands else [])
    credits_nano, usage_nano, held_nano = totals(payer)
    assert credits_nano - usage_nano - held_nano == left - (10 * CENT if stands else 0)


@pytest.mark.parametrize("taken", ["spent_nano", "held_nano"])
@ENOUGH_OR_NOT
def test_a_hold_sees_a_key_limit_that_was_used_while_it_waited(
    sessions: tuple[Session, Session], taken: str, left: int, stands: bool
) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT, limit_reset="daily")
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    lock = "SELECT 1 FROM accounts_account WHERE id = %s FOR UPDATE", [payer.account_id]
    spend = f"UPDATE accounts_spendcounter SET {taken} = %s WHERE id = ANY(%s)"  # noqa: S608 - A column named above.

    used = (spend, [50 * CENT - left, list(mine.ids.every)])
    assert after_a_wait(*sessions, lambda: mine.place(hold), lock, used) is stands

    held = 10 * CENT if stands else 0
    assert (sum(open_holds(payer)), totals(payer)[2]) == (held, held)
    assert sum(key_counters(payer)["day"]) == 50 * CENT - left + held


def test_a_settlement_of_a_hold_that_was_swept_while_it_waited_moves_nothing(sessions) -> None:
    payer = new_payer(USD)
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    assert mine.place(hold)

    gone = "DELETE FROM accounts_hold WHERE generation_id = %s", [hold.generation_id]
    assert after_a_wait(*sessions, lambda: mine.settle(hold, 7 * CENT), gone) is False

    assert (totals(payer), entries(payer)) == ((USD, 0, 10 * CENT), [0])


def test_a_settlement_alone_books_what_it_says_once(sessions: tuple[Session, Session]) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    mine, hold = Order(sessions[0], payer), hold_order(payer, 10 * CENT)

    assert mine.place(hold)
    assert [mine.settle(hold, 7 * CENT) for _ in range(2)] == [True, False]

    assert (totals(payer), entries(payer)) == ((USD, 7 * CENT, 0), [0, 7 * CENT])
    assert_books_agree()


def test_a_free_hold_asks_for_no_money_but_that_none_is_owed(sessions) -> None:
    payer = new_payer(USD)
    mine, dear = Order(sessions[0], payer), hold_order(payer, USD)

    assert mine.place(dear)
    assert mine.place(hold_order(payer, 0))
    assert mine.settle(dear, USD + 1)
    assert not mine.place(hold_order(payer, 0))
    assert_books_agree()
