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
    carry_out,
    entries,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    running_writer,
    settle_order,
    totals,
)

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"


@pytest.fixture
def sessions(transactional_db: None) -> Iterator[tuple[Session, Session]]:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    pair = Session(), Session()
    yield pair
    for session in pair:
        session.close()


def counted(payer: Payer) -> CounterSet:
    """A payer's counters, made by a first hold that is settled for nothing."""
    with running_writer() as writer:
        first = hold_order(payer, CENT)
        carry_out(writer, first)
        carry_out(writer, settle_order(first, 0))
    rows = SpendCounter.objects.filter(scope_id=str(payer.key_id)).order_by("id")
    limited = rows.filter(limit_nano__isnull=False)
    return CounterSet(
        tuple(rows.values_list("id", flat=True)), tuple(limited.values_list("id", flat=True))
    )


def alone(session: Session, work: Callable[[], None]) -> bool:
    """Whether it stands."""
    try:
        with session.flight():
            session.begin(alone=True)
            work()
            session.commit()
    except (NotAsExpected, *CONSTRAINT_ERRORS):
        return False
    return True


def after_a_wait(
    sessions: tuple[Session, Session], work: Callable[[], None], *others: tuple[str, list[Any]]
) -> bool:
    """Whether `work` of the second session stands when the first one does the `others` to rows that
    it waits for."""
    first, second = sessions
    pid = second.execute("SELECT pg_backend_pid()").fetchone()[0]
    first.begin()
    for sql, parameters in others:
        first.execute(sql, parameters)
    verdict: list[bool] = []
    thread = threading.Thread(target=lambda: verdict.append(alone(second, work)))
    thread.start()
    until = time.monotonic() + WAIT_S
    while not first.execute(BLOCKED, [pid]).fetchone()[0]:
        assert time.monotonic() < until
    first.commit()
    thread.join(WAIT_S)
    return verdict[0]


def place(session: Session, order: HoldOrder, ids: CounterSet) -> Callable[[], None]:
    return lambda: hold_alone(session, order, ids.limited, enforced=True)


@pytest.mark.parametrize("taken", ["total_usage_nano", "held_nano"])
@pytest.mark.parametrize(("left", "stands"), [(10 * CENT, True), (10 * CENT - 1, False)])
def test_a_hold_sees_a_balance_that_was_taken_while_it_waited(
    sessions: tuple[Session, Session], taken: str, left: int, stands: bool
) -> None:
    payer = new_payer(USD)
    order, ids = hold_order(payer, 10 * CENT), counted(payer)
    other = f"UPDATE accounts_account SET {taken} = %s WHERE id = %s"  # noqa: S608 - A column named above.

    work = place(sessions[1], order, ids)
    assert after_a_wait(sessions, work, (other, [USD - left, payer.account_id])) is stands

    assert open_holds(payer) == ([10 * CENT] if stands else [])
    credits_nano, usage_nano, held_nano = totals(payer)
    assert credits_nano - usage_nano - held_nano == left - (10 * CENT if stands else 0)


@pytest.mark.parametrize("taken", ["spent_nano", "held_nano"])
@pytest.mark.parametrize(("left", "stands"), [(10 * CENT, True), (10 * CENT - 1, False)])
def test_a_hold_sees_a_key_limit_that_was_used_while_it_waited(
    sessions: tuple[Session, Session], taken: str, left: int, stands: bool
) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT, limit_reset="daily")
    order, ids = hold_order(payer, 10 * CENT), counted(payer)
    locked = "SELECT 1 FROM accounts_account WHERE id = %s FOR UPDATE", [payer.account_id]
    spent = f"UPDATE accounts_spendcounter SET {taken} = %s WHERE id = ANY(%s)"  # noqa: S608 - A column named above.

    work = place(sessions[1], order, ids)
    used = (spent, [50 * CENT - left, list(ids.every)])
    assert after_a_wait(sessions, work, locked, used) is stands

    assert open_holds(payer) == ([10 * CENT] if stands else [])
    assert sum(key_counters(payer)["day"]) == 50 * CENT - left + (10 * CENT if stands else 0)
    assert totals(payer)[2] == (10 * CENT if stands else 0)


def test_a_settlement_of_a_hold_that_was_swept_while_it_waited_moves_nothing(
    sessions: tuple[Session, Session],
) -> None:
    payer = new_payer(USD)
    ids, hold = counted(payer), hold_order(payer, 10 * CENT)
    assert alone(sessions[1], place(sessions[1], hold, ids))
    settle: Any = replace_held(settle_order(hold, 7 * CENT), hold)
    gone = "DELETE FROM accounts_hold WHERE generation_id = %s", [hold.generation_id]

    stands = after_a_wait(sessions, lambda: settle_alone(sessions[1], settle, ids), gone)

    assert stands is False
    assert (totals(payer), entries(payer)) == ((USD, 0, 10 * CENT), [0])


def test_a_settlement_alone_books_what_it_says(sessions: tuple[Session, Session]) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    ids, hold = counted(payer), hold_order(payer, 10 * CENT)
    settle: Any = replace_held(settle_order(hold, 7 * CENT), hold)

    assert alone(sessions[0], place(sessions[0], hold, ids))
    assert alone(sessions[0], lambda: settle_alone(sessions[0], settle, ids))
    assert not alone(sessions[0], lambda: settle_alone(sessions[0], settle, ids))

    assert totals(payer) == (USD, 7 * CENT, 0)
    assert entries(payer) == [0, 7 * CENT]
    assert_books_agree()


def test_a_free_hold_asks_for_no_money_but_that_none_is_owed(
    sessions: tuple[Session, Session],
) -> None:
    payer = new_payer(USD)
    ids = counted(payer)
    spent = hold_order(payer, USD)
    assert alone(sessions[0], place(sessions[0], spent, ids))
    assert alone(sessions[0], place(sessions[0], hold_order(payer, 0), ids))

    owed: Any = replace_held(settle_order(spent, USD + 1), spent)
    assert alone(sessions[0], lambda: settle_alone(sessions[0], owed, ids))
    assert not alone(sessions[0], place(sessions[0], hold_order(payer, 0), ids))
    assert_books_agree()


def replace_held(settle: Any, hold: HoldOrder) -> Any:
    return settle._replace(held_nano=hold.amount_nano)
