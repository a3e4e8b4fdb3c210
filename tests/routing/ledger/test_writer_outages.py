"""What the ledger writer promises when its database is away, or there and will not write."""

import threading
from typing import Any

import pytest

from gateway.http.errors import Unavailable
from routing.ledger.session import LedgerSession
from tests.routing.ledger.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    carry_out,
    entries,
    hold_order,
    new_payer,
    place_standing,
    running_writer,
    settle,
    settle_order,
    totals,
)
from tests.routing.ledger.sessions import Commits, Moods, break_connection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.parametrize("unwilling", ["read_only", "no_table"])
def test_while_the_database_will_not_write_holds_fail_at_once_and_settlements_wait(
    unwilling: str, caplog
) -> None:
    payer, moods = new_payer(USD), Moods()

    with running_writer(moods.open) as writer:
        hold = place_standing(writer, payer, 10 * CENT)
        moods.unwilling = unwilling
        settled = writer.submit(settle_order(hold, 7 * CENT))
        moods.wait_attempts(2)
        with pytest.raises(Unavailable) as refused:
            carry_out(writer, hold_order(payer, CENT))
        assert refused.value.__cause__ is not None  # By the database's word, not by the clock.
        assert not settled.done.is_set()
        moods.unwilling = ""
        assert writer.wait(settled, WAIT_S) is True
        place_standing(writer, payer, CENT)

    assert "refuses to write" in caplog.text
    assert (totals(payer), entries(payer)) == ((USD, 7 * CENT, CENT), [7 * CENT])
    assert_books_agree()


def test_what_cannot_be_booked_at_the_stop_is_told_to_the_operator(caplog) -> None:
    payer, moods = new_payer(USD), Moods()

    with running_writer(moods.open) as writer:
        waiting, passing = (place_standing(writer, payer, 10 * CENT) for _ in range(2))
        moods.unwilling = "read_only"
        ticket = writer.submit(settle_order(waiting, 7 * CENT))
        moods.wait_attempts(1)
        writer.stop(0.2)
        assert f"{waiting.generation_id} of account {payer.account_id}, 70000000" in caplog.text
        with pytest.raises(Unavailable):
            writer.wait(ticket, WAIT_S)
        # Let go is let go; the next order begins anew.
        moods.unwilling = ""
        settle(writer, passing, CENT)

    assert passing.generation_id not in caplog.text
    assert entries(payer) == [CENT]
    assert_books_agree()


def test_a_stop_while_the_database_is_away_ends_in_time_and_tells(caplog) -> None:
    payer, commits, away = new_payer(USD), Commits(), threading.Event()

    def open_session() -> Any:
        if away.is_set():
            break_connection()
        return commits.open()

    with running_writer(open_session) as writer:
        hold = place_standing(writer, payer, 10 * CENT)
        commits.before.append(break_connection)
        away.set()
        ticket = writer.submit(settle_order(hold, 7 * CENT))
        commits.wait_reached()
        writer.stop(0.3)
        with pytest.raises(Unavailable):
            writer.wait(ticket, WAIT_S)
        assert f"Not booked: generation {hold.generation_id}" in caplog.text


def test_the_stop_waits_for_a_database_that_comes_back_in_time() -> None:
    payer, moods = new_payer(USD), Moods()

    with running_writer(moods.open) as writer:
        hold = place_standing(writer, payer, 10 * CENT)
        moods.unwilling = "read_only"
        writer.submit(settle_order(hold, 7 * CENT))
        stopping = threading.Thread(target=writer.stop, args=(WAIT_S,))
        stopping.start()
        moods.wait_attempts(2)
        moods.unwilling = ""
        stopping.join(WAIT_S)

    assert entries(payer) == [7 * CENT]


def test_the_database_may_come_back_before_the_waiter_gives_up() -> None:
    payer, refusals = new_payer(USD), [break_connection, break_connection]

    def open_session() -> LedgerSession:
        if refusals:
            refusals.pop()()
        return LedgerSession()

    with running_writer(open_session) as writer:
        place_standing(writer, payer, CENT)

    assert totals(payer) == (USD, 0, CENT)
