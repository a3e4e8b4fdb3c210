"""What the ledger writer promises when waiters leave, an order cannot be written, or it dies."""

import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from gateway.http.errors import Unavailable
from routing.ledger.orders import TopUpOrder
from routing.ledger.session import LedgerSession
from routing.ledger.tickets import Ticket
from routing.ledger.writer import LedgerWriter
from tests.routing.ledger.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    carry_out,
    entries,
    generation,
    hold_order,
    new_payer,
    open_holds,
    place_standing,
    running_writer,
    settle,
    settle_order,
    totals,
    wait_all,
)
from tests.routing.ledger.sessions import Commits, break_connection, held_up

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
DIES = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
BEFORE_OR_AFTER_COMMIT = pytest.mark.parametrize("committed", [True, False])


def give_up(writer: LedgerWriter, ticket: Ticket) -> None:
    with pytest.raises(Unavailable):
        writer.wait(ticket, 0.02)


def assert_failed(writer: LedgerWriter, *tickets: Ticket) -> None:
    for ticket in tickets:
        with pytest.raises(Unavailable):
            writer.wait(ticket, WAIT_S)


def meet_next_batch(commits: Commits, *, committed: bool, what: Any) -> None:
    """`what` comes at the commit behind the one that is held up."""
    moment = commits.after if committed else commits.before
    moment.append(lambda: moment.append(what))


# --- Waiters who leave ----------------------------------------------------------------------------


def test_a_hold_whose_waiter_gave_up_while_it_was_committed_is_released(writer, commits) -> None:
    payer, other = new_payer(USD), new_payer(USD)
    place_standing(writer, other, CENT)
    commits.block()
    ticket = writer.submit(hold_order(payer, CENT))
    commits.wait_reached()

    give_up(writer, ticket)
    commits.go_on.set()

    # A later order's outcome means that everything queued before it was carried out.
    place_standing(writer, other, 0)
    place_standing(writer, other, 0)
    assert (totals(payer), open_holds(payer)) == ((USD, 0, 0), [])


def test_in_the_queue_a_hold_is_given_up_and_a_charge_is_not(writer, commits) -> None:
    payer, other = new_payer(USD), new_payer(USD)
    hold = place_standing(writer, payer, 2 * CENT)

    held_up(writer, commits)
    give_up(writer, writer.submit(hold_order(other, CENT)))
    commits.go_on.set()
    place_standing(writer, payer, 0)
    assert commits.count == 2  # Of what was held up, and of this one.

    held_up(writer, commits)
    give_up(writer, writer.submit(settle_order(hold, CENT)))
    commits.go_on.set()
    place_standing(writer, payer, 0)
    assert (totals(other), totals(payer)) == ((USD, 0, 0), (USD, CENT, 0))


@BEFORE_OR_AFTER_COMMIT
def test_a_waiter_that_gave_up_before_the_replay_leaves_no_hold(writer, commits, committed) -> None:
    payer, other = new_payer(USD), new_payer(USD)
    gave_up = threading.Event()

    def break_once_abandoned() -> None:
        assert gave_up.wait(WAIT_S)
        break_connection()

    place_standing(writer, other, CENT)
    (commits.after if committed else commits.before).append(break_once_abandoned)
    give_up(writer, writer.submit(hold_order(payer, CENT)))
    gave_up.set()

    place_standing(writer, other, 0)
    assert (totals(payer), open_holds(payer)) == ((USD, 0, 0), [])


# --- Commits of which nobody knows ----------------------------------------------------------------


@BEFORE_OR_AFTER_COMMIT
def test_a_commit_of_unknown_outcome_is_replayed_and_counts_once(
    writer, commits, committed: bool, caplog
) -> None:
    payer, fresh = new_payer(USD), new_payer(USD)
    hold = place_standing(writer, payer, 10 * CENT)
    held_up(writer, commits)

    orders: list[Any] = [hold_order(fresh, 3 * CENT), settle_order(hold, 7 * CENT)]
    tickets = [writer.submit(order) for order in orders]
    meet_next_batch(commits, committed=committed, what=break_connection)
    commits.go_on.set()

    assert wait_all(writer, tickets) == [True, True]
    assert "does not answer" in caplog.text
    assert (totals(payer), totals(fresh)) == ((USD, 7 * CENT, 0), (USD, 0, 3 * CENT))
    assert entries(payer) == [7 * CENT]
    # Counters that were made in what was rolled back are made again.
    place_standing(writer, fresh, CENT)


def test_a_raise_of_unknown_outcome_is_refused_and_its_money_comes_back(writer, commits) -> None:
    payer = new_payer(USD)
    hold = place_standing(writer, payer, 10 * CENT)
    commits.after.append(break_connection)
    assert_failed(writer, writer.submit(TopUpOrder(hold.generation_id, payer, 5 * CENT)))
    assert open_holds(payer) == [15 * CENT]
    settle(writer, hold, 10 * CENT)
    assert totals(payer) == (USD, 10 * CENT, 0)


def test_a_failure_nobody_can_read_costs_no_charge(writer, commits, payer) -> None:
    """Such as a plan that a migration outdated: a fresh connection has none."""
    holds = place_standing(writer, payer, 10 * CENT), place_standing(writer, payer, CENT)
    first = held_up(writer, commits)

    def fail() -> None:
        raise psycopg.errors.FeatureNotSupported("cached plan must not change result type")

    tickets = [writer.submit(settle_order(hold, CENT)) for hold in holds]
    meet_next_batch(commits, committed=False, what=fail)
    commits.go_on.set()

    assert wait_all(writer, [first, *tickets]) == [True] * 3
    assert entries(payer) == [CENT, CENT]


# --- Orders that cannot be written ----------------------------------------------------------------


def test_poison_fails_alone_and_its_batch_mates_pass(writer, commits, caplog, payer) -> None:
    settlements = [settle_order(place_standing(writer, payer, CENT), CENT) for _ in range(4)]
    settlements[1].record.pop("tokens_prompt")
    settlements[2].record["status"] = None
    nothing: Any = None  # The column is NOT NULL.
    holds = [hold_order(payer, CENT) for _ in range(3)]
    holds[1] = holds[1]._replace(model=nothing)

    held_up(writer, commits)
    first, bad, odd, last = [writer.submit(order) for order in settlements]
    one, poison, other = [writer.submit(order) for order in holds]
    commits.go_on.set()

    assert_failed(writer, bad, odd, poison)
    assert wait_all(writer, [first, last, one, other]) == [True] * 4
    assert caplog.text.count("refused an item") == 3
    assert "Failing row" not in caplog.text
    # What cannot be written is not charged, and holds nothing either.
    place_standing(writer, payer, 0)
    assert totals(payer) == (USD, 2 * CENT, 2 * CENT)
    assert open_holds(payer) == [0, CENT, CENT]


# --- Writers that die -----------------------------------------------------------------------------


class Fate:
    """Opens sessions that break as often as `deaths` says, in a way that nobody foresaw."""

    def __init__(self) -> None:
        self.deaths = 0
        self.may_open, self.closing, self.may_close = (threading.Event() for _ in range(3))
        self.may_open.set()
        self.may_close.set()

    def open(self) -> LedgerSession:
        assert self.may_open.wait(WAIT_S)
        return _MortalSession(self)


class _MortalSession(LedgerSession):
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


@DIES
def test_a_writer_that_dies_fails_all_its_waiters_and_the_next_order_starts_another(caplog) -> None:
    payer, fate = new_payer(USD), Fate()
    fate.may_open.clear()

    with running_writer(fate.open) as writer:
        fate.deaths = 1
        tickets = [writer.submit(hold_order(payer, CENT)) for _ in range(5)]
        fate.may_open.set()
        assert_failed(writer, *tickets)
        place_standing(writer, payer, CENT)

    assert "The ledger writer died" in caplog.text
    assert totals(payer) == (USD, 0, CENT)
    assert_books_agree()


@DIES
def test_an_order_that_comes_while_a_writer_is_dying_is_carried_out() -> None:
    payer, fate = new_payer(USD), Fate()

    with running_writer(fate.open) as writer:
        place_standing(writer, payer, CENT)
        fate.deaths = 1
        fate.may_close.clear()
        assert_failed(writer, writer.submit(hold_order(payer, CENT)))
        assert fate.closing.wait(WAIT_S)
        late = writer.submit(hold_order(payer, CENT))
        fate.may_close.set()
        assert writer.wait(late, WAIT_S) is True


@DIES
@BEFORE_OR_AFTER_COMMIT
def test_a_charge_outlives_the_writer_that_died_with_it(committed: bool, caplog) -> None:
    payer, commits = new_payer(USD), Commits()

    def die() -> None:
        raise RuntimeError("nobody foresaw this")

    with running_writer(commits.open) as writer:
        holds = [place_standing(writer, payer, 10 * CENT) for _ in range(2)]
        held_up(writer, commits)
        meet_next_batch(commits, committed=committed, what=die)
        orders: list[Any] = [settle_order(hold, 7 * CENT) for hold in holds]
        tickets = [writer.submit(order) for order in [*orders, hold_order(payer, CENT)]]
        commits.go_on.set()
        assert_failed(writer, *tickets)

    # What was left to the next writer is carried out before that one ends.
    assert "The ledger writer died" in caplog.text
    assert entries(payer) == [7 * CENT, 7 * CENT]
    assert totals(payer) == (USD, 14 * CENT, 0)
    assert_books_agree()


class Deadly(dict[str, Any]):
    """A record that ends whoever reads it, in a way that nobody foresaw."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("nobody foresaw this")


@DIES
def test_a_charge_that_kills_writers_is_told_and_let_go(caplog, payer) -> None:
    with running_writer() as writer:
        deadly, sound = (place_standing(writer, payer, 10 * CENT) for _ in range(2))
        poison = settle_order(deadly, 7 * CENT)._replace(record=Deadly())
        assert_failed(writer, writer.submit(poison))
        # The dying one may still tell this waiter no; the charge is for the next one.
        with suppress(Unavailable):
            carry_out(writer, settle_order(sound, CENT))

    assert f"Not booked: generation {deadly.generation_id}" in caplog.text
    assert (generation(deadly), entries(payer)) == (None, [CENT])
    assert_books_agree()
