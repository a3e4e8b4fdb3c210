"""Statements in a flight: together on the wire, one by one in what they do. And one order as one
statement: it sees what others did while it waited for its rows."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import SpendCounter
from routing.ledger.batch import place_hold, settle_hold
from routing.ledger.counters import CounterSet
from routing.ledger.orders import HoldOrder, Payer
from routing.ledger.pipeline import encode_values, insert_sql, number_placeholders
from routing.ledger.session import CONSTRAINT_ERRORS, LedgerSession, NotAsExpected
from tests.routing.ledger.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    entries,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    place_standing,
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

    def __init__(self, session: LedgerSession, payer: Payer) -> None:
        self.session, self.payer = session, payer
        with running_writer() as writer:  # It makes the counters.
            settle(writer, place_standing(writer, payer, CENT), 0)
        rows = SpendCounter.objects.filter(scope_id=str(payer.key_id)).order_by("id")
        limited = rows.filter(limit_nano__isnull=False)
        every, bound = (tuple(each.values_list("id", flat=True)) for each in (rows, limited))
        self.ids = CounterSet(every, bound)

    def place(self, order: HoldOrder) -> bool:
        """Whether it stands."""
        ids = self.ids.limited
        return self._alone(lambda: place_hold(self.session, order, ids, enforced=True))

    def settle(self, hold: HoldOrder, charge_nano: int) -> bool:
        order = settle_order(hold, charge_nano)._replace(held_nano=hold.amount_nano)
        return self._alone(lambda: settle_hold(self.session, order, self.ids))

    def _alone(self, work: Callable[[], None]) -> bool:
        try:
            with self.session.pipeline():
                self.session.begin(alone=True)
                work()
                self.session.commit()
        except (NotAsExpected, *CONSTRAINT_ERRORS):
            return False
        return True


@pytest.fixture
def sessions(transactional_db: None) -> Iterator[tuple[LedgerSession, LedgerSession]]:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    pair = LedgerSession(), LedgerSession()
    yield pair
    for session in pair:
        session.close()


def after_a_wait(
    sessions: tuple[LedgerSession, LedgerSession],
    work: Callable[[], bool],
    *changes: tuple[str, list[Any]],
) -> bool:
    """What `work` of my session comes to when the other one changes rows that it waits for."""
    other, mine = sessions
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
    sessions, taken: str, left, stands: bool
) -> None:
    payer = new_payer(USD)
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    take = f"UPDATE accounts_account SET {taken} = %s WHERE id = %s"  # noqa: S608 - A column named above.
    change = (take, [USD - left, payer.account_id])
    assert after_a_wait(sessions, lambda: mine.place(hold), change) is stands
    assert open_holds(payer) == ([10 * CENT] if stands else [])
    credits_nano, usage_nano, held_nano = totals(payer)
    assert credits_nano - usage_nano - held_nano == left - (10 * CENT if stands else 0)


@pytest.mark.parametrize("taken", ["spent_nano", "held_nano"])
@ENOUGH_OR_NOT
def test_a_hold_sees_a_key_limit_that_was_used_while_it_waited(
    sessions, taken: str, left, stands: bool
) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT, limit_reset="daily")
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    lock = "SELECT 1 FROM accounts_account WHERE id = %s FOR UPDATE", [payer.account_id]
    spend = f"UPDATE accounts_spendcounter SET {taken} = %s WHERE id = ANY(%s)"  # noqa: S608 - A column named above.

    used = (spend, [50 * CENT - left, list(mine.ids.every)])
    assert after_a_wait(sessions, lambda: mine.place(hold), lock, used) is stands

    held = 10 * CENT if stands else 0
    assert (sum(open_holds(payer)), totals(payer)[2]) == (held, held)
    assert sum(key_counters(payer)["day"]) == 50 * CENT - left + held


def test_a_settlement_of_a_hold_that_was_swept_while_it_waited_moves_nothing(sessions) -> None:
    payer = new_payer(USD)
    mine, hold = Order(sessions[1], payer), hold_order(payer, 10 * CENT)
    assert mine.place(hold)
    gone = "DELETE FROM accounts_hold WHERE generation_id = %s", [hold.generation_id]
    assert after_a_wait(sessions, lambda: mine.settle(hold, 7 * CENT), gone) is False
    assert (totals(payer), entries(payer)) == ((USD, 0, 10 * CENT), [0])


def test_a_settlement_alone_books_what_it_says_once(sessions) -> None:
    payer = new_payer(USD, limit_nano=50 * CENT)
    mine, hold = Order(sessions[0], payer), hold_order(payer, 10 * CENT)
    assert mine.place(hold)
    assert [mine.settle(hold, 7 * CENT) for _ in range(2)] == [True, False]
    assert (totals(payer), entries(payer)) == ((USD, 7 * CENT, 0), [0, 7 * CENT])
    assert_books_agree()


def test_a_free_hold_asks_for_no_money_but_that_none_is_owed(sessions, payer) -> None:
    mine, dear = Order(sessions[0], payer), hold_order(payer, USD)
    assert mine.place(dear)
    assert mine.place(hold_order(payer, 0))
    assert mine.settle(dear, USD + 1)
    assert not mine.place(hold_order(payer, 0))
    assert_books_agree()


# --- Flights --------------------------------------------------------------------------------------


TABLE = "CREATE TEMPORARY TABLE landed (id int PRIMARY KEY, said text, at timestamptz)"


@pytest.fixture
def session(transactional_db: None) -> Iterator[LedgerSession]:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no pipeline")
    session = LedgerSession()
    session.execute(TABLE)
    yield session
    session.close()


def together(session: LedgerSession, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with session.pipeline():
        for sql, parameters in statements:
            session.execute(sql, parameters)


def read_landed(session: LedgerSession) -> list[Any]:
    return list(session.execute("SELECT id, said FROM landed ORDER BY id").fetchall())


@pytest.mark.parametrize("has_pooler", [False, True])
def test_behind_a_pooler_no_setting_outlives_its_transaction(
    transactional_db: None, settings: Any, has_pooler: bool
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no settings of a session")
    settings.DATABASE_POOLER = has_pooler
    seen = "current_setting('enable_seqscan')"
    shown = f"SELECT {seen}, current_setting('idle_in_transaction_session_timeout')"
    limits = ("off", "5s")
    session = LedgerSession()
    try:
        before = session.execute(shown).fetchone()
        assert before != limits
        session.set_up()
        session.execute(TABLE)
        with session.pipeline():
            session.begin(alone=True)
            session.execute(f"INSERT INTO landed VALUES (1, {seen})")  # noqa: S608 - Named above.
            session.commit()
        assert read_landed(session) == [(1, "off")]
        session.begin()
        assert session.execute(shown).fetchone() == limits
        session.commit()
        assert session.execute(shown).fetchone() == (before if has_pooler else limits)
    finally:
        session.close()


def test_statements_are_carried_out_when_the_flight_ends(session) -> None:
    with session.pipeline():
        session.insert("landed", ("id", "said"), [(1, "one"), (2, 'a "two" \\ {x,y}')])
        condition, parameters = session.build_membership("said", ['a "two" \\ {x,y}', "nobody"])
        update = "UPDATE landed SET id = %s WHERE "
        session.execute(update + condition, [3, *parameters])
    assert read_landed(session) == [(1, "one"), (3, 'a "two" \\ {x,y}')]


def test_what_stands_behind_a_statement_that_moved_too_little_is_not_carried_out(session) -> None:
    session.insert("landed", ("id",), [(1,), (2,)])

    def move(rows: int) -> None:
        with session.pipeline():
            session.begin()
            session.expect(rows)
            session.execute("UPDATE landed SET said = %s WHERE id < %s", ("moved", 3))
            session.commit()

    with pytest.raises(NotAsExpected):
        move(3)
    session.rollback()
    assert read_landed(session) == [(1, None), (2, None)]

    move(2)
    assert read_landed(session) == [(1, "moved"), (2, "moved")]


def test_an_error_is_raised_and_the_connection_goes_on(session) -> None:
    session.begin()
    with pytest.raises(psycopg.errors.UniqueViolation):
        together(
            session,
            ("INSERT INTO landed (id) VALUES (%s), (%s)", (1, 1)),
            ("INSERT INTO landed (id) VALUES (%s)", (7,)),
        )
    session.rollback()

    # Its texts behind the failed one were not prepared, and are now.
    together(session, ("INSERT INTO landed (id) VALUES (%s)", (7,)))
    assert read_landed(session) == [(7, None)]


def test_a_connection_that_ended_is_told_as_such(session) -> None:
    own_pid = session.execute("SELECT pg_backend_pid()").fetchone()[0]
    with connection.cursor() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [own_pid])
    with pytest.raises(psycopg.OperationalError):
        together(session, ("SELECT 1", ()))


def test_values_arrive_as_they_were_and_stay_as_they_are(session) -> None:
    at = datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
    for said in ("ü\n\t'€", "second"):
        with session.pipeline():
            session.insert("landed", ("id", "said", "at"), [(-(2**31), said, at)])
    rows = session.execute("SELECT id, said, at FROM landed").fetchall()
    assert rows == [(-(2**31), "ü\n\t'€", at)]


def test_placeholders_are_numbered_from_one() -> None:
    assert number_placeholders("a = %s AND b IN (%s, %s)") == b"a = $1 AND b IN ($2, $3)"
    sql = insert_sql("t", ("a", "b"))
    assert sql == "INSERT INTO t (a, b) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def test_every_kind_of_value_has_its_text() -> None:
    unit = UUID("12345678123456781234567812345678")
    at = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    name = unit.hex.encode()
    assert encode_values([None, True, False, 0, -5]) == [None, b"t", b"f", b"0", b"-5"]
    assert encode_values([unit, at]) == [name, b"2026-02-28T23:59:59+00:00"]
    arrays = [b"{1,-2}", b"{7}", b"{}", b"{t,3}", b"{%s}" % name]
    assert encode_values([[1, -2], [7], [], [True, 3], [unit]]) == arrays
    assert encode_values(["", "ü"]) == [b"", "ü".encode()]


@pytest.mark.parametrize("value", [1.5, b"bytes", {}, object(), "before\x00after"])
def test_a_value_without_a_text_is_refused_and_a_nul_never_cuts_one_short(value: object) -> None:
    with pytest.raises(psycopg.DataError if isinstance(value, str) else TypeError):
        encode_values([1, value])


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))))
def test_any_list_of_texts_is_one_array_literal(values: list[str]) -> None:
    """Read back by PostgreSQL's rules: in quotes, a backslash escapes the next character."""
    [text] = encode_values([values])
    assert text is not None
    body = text.decode()
    assert body[0] + body[-1] == "{}"
    read: list[str] = []
    rest = body[1:-1]
    while rest:
        found = re.match(r'"((?:[^"\\]|\\.)*)"(,|$)', rest, re.DOTALL)
        assert found is not None
        read.append(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
        rest = rest[found.end() :]
    assert read == values
