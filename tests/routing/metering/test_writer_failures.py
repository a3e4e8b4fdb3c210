"""What the ledger writer promises when waiters leave and the database fails."""

import threading
from typing import Any

import pytest

from gateway.http.errors import Unavailable
from routing.metering.orders import Order, Payer, TopUpOrder
from routing.metering.session import Session
from tests.routing.metering.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    carry_out,
    entries,
    hold_order,
    new_payer,
    open_holds,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.metering.sessions import Commits, break_connection, held_up

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
GIVEN_UP_S = 0.02


def wait_for_queue(writer: Any, payer: Payer) -> None:
    """A later order's outcome means that everything queued before it was carried out."""
    carry_out(writer, hold_order(payer, 0))


def test_a_hold_whose_waiter_gave_up_while_it_was_committed_is_released() -> None:
    payer, other = new_payer(USD), new_payer(USD)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold_order(other, CENT))
        commits.block()
        ticket = writer.submit(hold_order(payer, CENT))
        commits.wait_reached()
        with pytest.raises(Unavailable):
            writer.wait(ticket, GIVEN_UP_S)
        commits.go_on.set()
        wait_for_queue(writer, other)
        wait_for_queue(writer, other)

    assert totals(payer) == (USD, 0, 0)
    assert open_holds(payer) == []
    assert_books_agree()


def test_a_hold_whose_waiter_gave_up_in_the_queue_is_never_placed() -> None:
    payer = new_payer(USD)
    commits = Commits()

    with running_writer(commits.open) as writer:
        held_up(writer, commits)
        ticket = writer.submit(hold_order(payer, CENT))
        with pytest.raises(Unavailable):
            writer.wait(ticket, GIVEN_UP_S)
        commits.go_on.set()

    assert commits.count == 1
    assert totals(payer) == (USD, 0, 0)


def test_a_settlement_whose_waiter_gave_up_is_booked_all_the_same() -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, CENT)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold)
        held_up(writer, commits)
        ticket = writer.submit(settle_order(hold, CENT))
        with pytest.raises(Unavailable):
            writer.wait(ticket, GIVEN_UP_S)
        commits.go_on.set()

    assert totals(payer) == (USD, CENT, 0)
    assert_books_agree()


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_of_unknown_outcome_is_replayed_and_counts_once(
    committed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    payer, fresh = new_payer(USD), new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold)
        held_up(writer, commits)
        orders: list[Order] = [hold_order(fresh, 3 * CENT), settle_order(hold, 7 * CENT)]
        tickets = [writer.submit(order) for order in orders]
        broken = commits.after if committed else commits.before
        # The one that is held up goes through; the batch behind it breaks.
        broken += [lambda: broken.append(break_connection)]
        commits.go_on.set()
        outcomes = [writer.wait(ticket, WAIT_S) for ticket in tickets]

    assert outcomes == [True, True]
    assert "does not answer" in caplog.text
    assert totals(payer) == (USD, 7 * CENT, 0)
    assert totals(fresh) == (USD, 0, 3 * CENT)
    assert entries(payer) == [7 * CENT]
    assert_books_agree()


def test_a_raise_of_unknown_outcome_is_refused_and_its_money_comes_back() -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold)
        commits.after.append(break_connection)
        with pytest.raises(Unavailable):
            carry_out(writer, TopUpOrder(hold.generation_id, payer, 5 * CENT))
        assert open_holds(payer) == [15 * CENT]
        carry_out(writer, settle_order(hold, 10 * CENT))

    assert totals(payer) == (USD, 10 * CENT, 0)
    assert_books_agree()


def test_a_waiter_that_gave_up_before_the_replay_leaves_no_hold() -> None:
    payer, other = new_payer(USD), new_payer(USD)
    commits = Commits()
    gave_up = threading.Event()

    def break_once_abandoned() -> None:
        assert gave_up.wait(WAIT_S)
        break_connection()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold_order(other, CENT))
        commits.after.append(break_once_abandoned)
        ticket = writer.submit(hold_order(payer, CENT))
        with pytest.raises(Unavailable):
            writer.wait(ticket, GIVEN_UP_S)
        gave_up.set()
        wait_for_queue(writer, other)

    assert totals(payer) == (USD, 0, 0)
    assert open_holds(payer) == []
    assert_books_agree()


def test_a_poison_item_fails_alone_and_its_batch_mates_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payer = new_payer(USD)
    holds = [hold_order(payer, CENT) for _ in range(4)]
    commits = Commits()
    settlements = [settle_order(hold, CENT) for hold in holds]
    settlements[1].record.pop("tokens_prompt")
    settlements[2].record["status"] = None

    with running_writer(commits.open) as writer:
        for hold in holds:
            carry_out(writer, hold)
        held_up(writer, commits)
        tickets = [writer.submit(order) for order in settlements]
        commits.go_on.set()
        for poison in tickets[1:3]:
            with pytest.raises(Unavailable):
                writer.wait(poison, WAIT_S)
        assert writer.wait(tickets[0], WAIT_S) is True
        assert writer.wait(tickets[3], WAIT_S) is True

    assert caplog.text.count("refused an item") == 2
    assert "Failing row" not in caplog.text
    # What cannot be written is not charged, and holds nothing either.
    assert totals(payer) == (USD, 2 * CENT, 0)
    assert_books_agree()


class Fate:
    """Opens sessions that break as often as `deaths` says, in a way that nobody foresaw."""

    def __init__(self) -> None:
        self.deaths = 0
        self.may_open, self.closing, self.may_close = (threading.Event() for _ in range(3))
        self.may_open.set()
        self.may_close.set()

    def open(self) -> Session:
        assert self.may_open.wait(WAIT_S)
        return _MortalSession(self)


class _MortalSession(Session):
    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def begin(self, *, alone: bool = False) -> None:
        if self._fate.deaths:
            self._fate.deaths -= 1
            raise RuntimeError("nobody foresaw this")
        super().begin(alone=alone)

    def close_quietly(self) -> None:
        self._fate.closing.set()
        assert self._fate.may_close.wait(WAIT_S)
        super().close_quietly()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_dies_fails_all_its_waiters_and_the_next_order_starts_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payer = new_payer(USD)
    fate = Fate()
    fate.may_open.clear()

    with running_writer(fate.open) as writer:
        fate.deaths = 1
        tickets = [writer.submit(hold_order(payer, CENT)) for _ in range(5)]
        fate.may_open.set()
        for ticket in tickets:
            with pytest.raises(Unavailable):
                writer.wait(ticket, WAIT_S)
        assert carry_out(writer, hold_order(payer, CENT)) is True

    assert "The ledger writer died" in caplog.text
    assert totals(payer) == (USD, 0, CENT)
    assert_books_agree()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_order_that_comes_while_a_writer_is_dying_is_carried_out() -> None:
    payer = new_payer(USD)
    fate = Fate()

    with running_writer(fate.open) as writer:
        assert carry_out(writer, hold_order(payer, CENT)) is True
        fate.deaths = 1
        fate.may_close.clear()
        with pytest.raises(Unavailable):
            carry_out(writer, hold_order(payer, CENT))
        assert fate.closing.wait(WAIT_S)
        late = writer.submit(hold_order(payer, CENT))
        fate.may_close.set()
        assert writer.wait(late, WAIT_S) is True


def test_the_database_may_come_back_before_the_waiter_gives_up() -> None:
    payer = new_payer(USD)
    refusals = [break_connection, break_connection]

    def open_session() -> Session:
        if refusals:
            refusals.pop()()
        return Session()

    with running_writer(open_session) as writer:
        assert carry_out(writer, hold_order(payer, CENT)) is True

    assert totals(payer) == (USD, 0, CENT)


def test_counters_made_in_a_transaction_that_rolled_back_are_made_again() -> None:
    payer = new_payer(USD)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold_order(new_payer(USD), CENT))
        commits.before.append(break_connection)
        assert carry_out(writer, hold_order(payer, CENT)) is True
        assert carry_out(writer, hold_order(payer, CENT)) is True

    assert totals(payer) == (USD, 0, 2 * CENT)
    assert_books_agree()
