"""What the ledger writer promises when its line to PostgreSQL is cut, refused or falls silent."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection, connections
from gevent import Timeout

from gateway.http.errors import Unavailable
from routing.ledger import session as session_module
from routing.ledger.orders import Order, ReleaseOrder
from routing.ledger.session import CooperativeConnection, LedgerSession
from routing.ledger.tickets import Ticket
from routing.ledger.writer import HOLD_WAIT_S
from tests.routing.ledger.books import (
    CENT,
    USD,
    WAIT_S,
    carry_out,
    entries,
    hold_order,
    new_payer,
    place_standing,
    running_writer,
    settle_order,
    totals,
    wait_all,
)
from tests.routing.ledger.sessions import held_up
from tests.support.bed import Bed
from tests.support.processes import eventually
from tests.support.promptness import in_time
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.django_db(transaction=True)
PLAIN = session_module._open_postgresql


@pytest.fixture
def line(stores: Bed, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """New sessions go through this proxy; those of `direct` get past it."""
    with TcpProxy("127.0.0.1", stores.postgres.port) as proxy:
        through = {"host": "127.0.0.1", "port": str(proxy.port)}
        monkeypatch.setattr(
            session_module, "_open_postgresql", lambda parameters: PLAIN(parameters | through)
        )
        yield proxy


def direct() -> LedgerSession:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session_module, "_open_postgresql", PLAIN)
        return LedgerSession()


def test_the_writer_waits_for_a_peer_that_vanished_as_the_url_says_or_five_seconds(
    stores: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_timeout() -> str:
        with LedgerSession()._raw as raw:
            return str(raw.info.get_parameters()["tcp_user_timeout"])

    assert read_timeout() == "5000"
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "tcp_user_timeout", "25000")
    assert read_timeout() == "25000"


@pytest.mark.parametrize("committed", [True, False])
def test_whatever_is_cut_at_its_commit_counts_once(line, writer, commits, committed: bool) -> None:
    payer = new_payer(40 * CENT)

    def cut() -> None:
        (line.cut_after_commit if committed else line.cut_before_commit)("accounts_account")

    hold, told = place_standing(writer, payer, 10 * CENT), place_standing(writer, payer, 20 * CENT)
    settlement = settle_order(hold, 7 * CENT)
    # With what it held, a settlement can be merged with its batch.
    merged = settle_order(told, 2 * CENT)._replace(held_nano=told.amount_nano)
    for order in (settlement, merged, hold_order(payer, CENT)):
        cut()
        assert carry_out(writer, order) is True
        line.wait_cut(WAIT_S)
    assert totals(payer) == (40 * CENT, 9 * CENT, CENT)
    assert entries(payer) == [7 * CENT, 2 * CENT]

    held_up(writer, commits)
    tickets = [writer.submit(hold_order(payer, CENT)) for _ in range(10)]
    commits.after.append(cut)
    commits.go_on.set()
    assert wait_all(writer, tickets) == [True] * 10
    line.wait_cut(WAIT_S)
    # Nothing was under way.
    line.cut()
    place_standing(writer, payer, CENT)
    assert totals(payer) == (40 * CENT, 9 * CENT, 12 * CENT)


def await_hang_up(caplog: pytest.LogCaptureFixture, word: str, line: TcpProxy) -> None:
    eventually(lambda: word in caplog.text, within_s=10, what="the hang-up", log=None)
    # Frozen for good: what thaws is another connection.
    line.cut()
    line.thaw()


def test_a_silent_database_is_hung_up_on_and_what_waits_is_booked_when_it_speaks_again(
    line, writer, settings, caplog
) -> None:
    settings.LEDGER_TIMEOUT = 1
    payer = new_payer(USD)
    hold = place_standing(writer, payer, 10 * CENT)
    line.freeze()

    settled = writer.submit(settle_order(hold, 7 * CENT))
    refused = writer.submit(hold_order(payer, CENT))
    began = time.monotonic()
    with pytest.raises(Unavailable):
        writer.wait(refused, HOLD_WAIT_S)
    in_time(time.monotonic() - began, 2)
    await_hang_up(caplog, "does not answer", line)

    assert writer.wait(settled, WAIT_S) is True
    place_standing(writer, payer, CENT)
    assert (totals(payer), entries(payer)) == ((USD, 7 * CENT, CENT), [7 * CENT])


def test_a_silent_sweep_does_not_hold_the_writer_for_ever(line, writer, settings, caplog) -> None:
    settings.LEDGER_TIMEOUT = 0.3
    payer = new_payer(USD)
    place_standing(writer, payer, CENT)
    line.freeze()
    writer._next_sweep_at = 0.0
    writer._work.set()
    await_hang_up(caplog, "sweep", line)
    place_standing(writer, payer, CENT)


def test_a_transaction_whose_client_fell_silent_does_not_lock_others_out(
    line, writer, commits, monkeypatch
) -> None:
    monkeypatch.setattr(session_module, "_GHOST_MS", 200)
    payer = new_payer(USD)
    place_standing(writer, payer, CENT)
    commits.block()
    ticket = writer.submit(hold_order(payer, CENT))
    commits.wait_reached()

    line.freeze()
    commits.go_on.set()
    # The silent one's account row is locked, and the server does not know that it is gone.
    with running_writer(direct) as other:
        place_standing(other, payer, 2 * CENT)
    line.thaw()

    assert writer.wait(ticket, WAIT_S) is True
    assert totals(payer) == (USD, 0, 4 * CENT)


def test_a_database_that_is_away_for_long_costs_no_charge_and_no_memory(
    line, writer, settings, monkeypatch
) -> None:
    settings.LEDGER_QUEUE_MAX = 20
    payer = new_payer(USD)
    hold = place_standing(writer, payer, 10 * CENT)
    submitted: list[Order] = []
    submit = writer.submit

    def recording(order: Order) -> Ticket:
        submitted.append(order)
        return submit(order)

    def give_up_on_holds() -> None:
        for _ in range(25):
            with pytest.raises(Unavailable):
                writer.wait(writer.submit(hold_order(payer, CENT)), 0.01)

    monkeypatch.setattr(writer, "submit", recording)
    line.refuse()
    line.cut()
    give_up_on_holds()
    settled = writer.submit(settle_order(hold, 7 * CENT))
    give_up_on_holds()

    # Only the one under way when the line was cut was near a COMMIT, and may have to be given
    # back. The others would queue up without end.
    assert sum(isinstance(order, ReleaseOrder) for order in submitted) <= 1
    assert len(writer._queue) <= 20 + 1
    line.thaw()
    assert writer.wait(settled, WAIT_S) is True
    assert totals(payer) == (USD, 7 * CENT, 0)


def test_a_flight_under_gevent_whose_server_is_gone_ends_at_once() -> None:
    """libpq closes its descriptor then; psycopg still ends the pipeline, and waits for it."""
    parameters = connection.get_connection_params()
    named = {key: parameters[key] for key in ("host", "port", "user", "dbname")}
    lost = CooperativeConnection.connect(**named, autocommit=True)

    def fly_without_a_server() -> None:
        with lost.pipeline():
            with connection.cursor() as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [lost.info.backend_pid])
            lost.execute("SELECT 1").fetchone()

    try:
        with Timeout(5), pytest.raises(psycopg.OperationalError):
            fly_without_a_server()
    finally:
        lost.close()
