"""What the ledger writer promises when its line to PostgreSQL is cut, refused or falls silent."""

import time
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from gateway.http.errors import Unavailable
from routing.metering import session as session_module
from routing.metering.orders import HoldOrder, Order, Payer, ReleaseOrder, SettleOrder
from routing.metering.tickets import Ticket
from routing.metering.writer import HOLD_WAIT_S, LedgerWriter
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
from tests.routing.metering.lines import direct, through_proxy
from tests.routing.metering.sessions import Commits, held_up, in_one_batch
from tests.support.bed import Bed
from tests.support.processes import eventually
from tests.support.promptness import in_time
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def line(stores: Bed, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    with through_proxy(stores, monkeypatch) as proxy:
        yield proxy


def _cut(line: TcpProxy, *, committed: bool) -> None:
    (line.cut_after_commit if committed else line.cut_before_commit)("accounts_account")


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("merged", [True, False])
def test_a_settlement_whose_commit_is_cut_is_charged_once(
    line: TcpProxy, committed: bool, merged: bool
) -> None:
    payer = new_payer(USD)
    hold, other = hold_order(payer, 10 * CENT), hold_order(payer, 20 * CENT)
    settle = settle_order(hold, 7 * CENT)
    if merged:
        settle = _told(settle, hold)

    with running_writer() as writer:
        carry_out(writer, hold)
        carry_out(writer, other)
        _cut(line, committed=committed)
        assert carry_out(writer, settle) is True
        line.wait_cut(WAIT_S)

    assert totals(payer) == (USD, 7 * CENT, 20 * CENT)
    assert entries(payer) == [7 * CENT]
    assert_books_agree()


def _told(settle: SettleOrder, hold: HoldOrder) -> SettleOrder:
    """With what it held, a settlement can be merged with its batch."""
    return SettleOrder(
        settle.generation_id,
        settle.payer,
        settle.charge_nano,
        settle.settled_at,
        settle.record,
        hold.amount_nano,
    )


@pytest.mark.parametrize("committed", [True, False])
def test_holds_whose_commit_is_cut_are_placed_once(line: TcpProxy, committed: bool) -> None:
    payer = new_payer(20 * CENT)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold_order(payer, CENT))
        _cut(line, committed=committed)
        assert carry_out(writer, hold_order(payer, CENT)) is True
        line.wait_cut(WAIT_S)
        held_up(writer, commits)
        batch = [hold_order(payer, CENT) for _ in range(10)]
        tickets = [writer.submit(order) for order in batch]
        commits.after.append(lambda: _cut(line, committed=committed))
        commits.go_on.set()
        assert [writer.wait(ticket, WAIT_S) for ticket in tickets] == [True] * 10
        line.wait_cut(WAIT_S)

    assert totals(payer) == (20 * CENT, 0, 12 * CENT)
    assert_books_agree()


@pytest.mark.parametrize("committed", [True, False])
def test_a_waiter_that_left_before_its_cut_commit_was_looked_into_leaves_no_hold(
    line: TcpProxy, committed: bool
) -> None:
    payer = new_payer(USD)

    with running_writer() as writer:
        carry_out(writer, hold_order(payer, 0))
        line.freeze()
        _cut(line, committed=committed)
        ticket = writer.submit(hold_order(payer, CENT))
        with pytest.raises(Unavailable):
            writer.wait(ticket, 0.05)
        line.thaw()
        line.wait_cut(WAIT_S)
        carry_out(writer, hold_order(payer, 0))
        carry_out(writer, hold_order(payer, 0))

    assert totals(payer) == (USD, 0, 0)
    assert open_holds(payer) == [0, 0, 0]
    assert_books_agree()


def test_a_silent_database_is_hung_up_on_and_what_waits_is_booked_when_it_speaks_again(
    line: TcpProxy, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.LEDGER_TIMEOUT = 1
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)

    with running_writer() as writer:
        carry_out(writer, hold)
        line.freeze()
        settled = writer.submit(settle_order(hold, 7 * CENT))
        refused = writer.submit(hold_order(payer, CENT))
        began = time.monotonic()
        with pytest.raises(Unavailable):
            writer.wait(refused, HOLD_WAIT_S)
        in_time(time.monotonic() - began, 2)
        # Frozen for good: what thaws below is another connection.
        eventually(
            lambda: "does not answer" in caplog.text, within_s=10, what="the hang-up", log=None
        )
        line.cut()
        line.thaw()
        assert writer.wait(settled, WAIT_S) is True
        assert carry_out(writer, hold_order(payer, CENT)) is True

    assert totals(payer) == (USD, 7 * CENT, CENT)
    assert entries(payer) == [7 * CENT]
    assert_books_agree()


def test_a_silent_sweep_does_not_hold_the_writer_for_ever(
    line: TcpProxy, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.LEDGER_TIMEOUT = 1
    payer = new_payer(USD)

    with running_writer() as writer:
        carry_out(writer, hold_order(payer, CENT))
        line.freeze()
        writer._next_sweep_at = 0.0
        writer._work.set()
        eventually(lambda: "sweep" in caplog.text, within_s=10, what="the hang-up", log=None)
        line.cut()
        line.thaw()
        assert carry_out(writer, hold_order(payer, CENT)) is True


def test_a_transaction_whose_client_fell_silent_does_not_lock_others_out(
    line: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_GHOST_MS", 200)
    payer = new_payer(USD)
    commits = Commits()

    with running_writer(commits.open) as silent, running_writer(direct) as other:
        carry_out(silent, hold_order(payer, CENT))
        commits.block()
        ticket = silent.submit(hold_order(payer, CENT))
        commits.wait_reached()
        line.freeze()
        commits.go_on.set()
        # The silent one's account row is locked, and the server does not know that it is gone.
        assert carry_out(other, hold_order(payer, 2 * CENT)) is True
        line.thaw()
        assert silent.wait(ticket, WAIT_S) is True

    assert totals(payer) == (USD, 0, 4 * CENT)
    assert_books_agree()


def test_a_database_that_is_away_for_long_costs_no_charge_and_no_memory(
    line: TcpProxy, settings: Settings
) -> None:
    settings.LEDGER_QUEUE_MAX = 20
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)

    with running_writer() as writer:
        carry_out(writer, hold)
        submitted = _recorded(writer)
        line.refuse()
        line.cut()
        _give_up_on_holds(writer, payer)
        settled = writer.submit(settle_order(hold, 7 * CENT))
        _give_up_on_holds(writer, payer)
        # Only the one under way when the line was cut was near a COMMIT, and may have to be given
        # back; the others would queue up without end.
        assert sum(isinstance(order, ReleaseOrder) for order in submitted) <= 1
        assert len(writer._queue) <= 20 + 1
        line.thaw()
        assert writer.wait(settled, WAIT_S) is True

    assert totals(payer) == (USD, 7 * CENT, 0)
    assert_books_agree()


def _give_up_on_holds(writer: LedgerWriter, payer: Payer) -> None:
    for _ in range(30):
        with pytest.raises(Unavailable):
            writer.wait(writer.submit(hold_order(payer, CENT)), 0.02)


def _recorded(writer: LedgerWriter) -> list[Order]:
    submitted: list[Order] = []
    submit = writer.submit

    def recording(order: Order) -> Ticket:
        submitted.append(order)
        return submit(order)

    writer.submit = recording  # type: ignore[method-assign]
    return submitted


def test_orders_of_one_batch_outlive_a_cut_line(line: TcpProxy) -> None:
    payer = new_payer(USD)
    commits = Commits()

    with running_writer(commits.open) as writer:
        carry_out(writer, hold_order(payer, 0))
        line.cut()
        orders = [hold_order(payer, CENT) for _ in range(5)]
        assert in_one_batch(writer, commits, orders) == [True] * 5

    assert totals(payer) == (USD, 0, 5 * CENT)
    assert_books_agree()
