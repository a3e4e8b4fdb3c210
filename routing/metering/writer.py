"""The ledger writer: one per web process, and the only one that writes money.

Requests hand it orders and wait. It takes all that have queued since its last commit, applies them
in one transaction and wakes the waiters: alone, a request pays one commit; under load fifty share
one. It owns one connection outside every pool, starts lazily (so after a fork), and sweeps expired
holds by itself. Nobody may wait on it while holding a database connection.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from gateway.db import Lane, native
from gateway.http.errors import Unavailable
from routing.metering.batch import apply_batch
from routing.metering.counters import CounterIds
from routing.metering.merged import apply_merged
from routing.metering.orders import HoldOrder, Order, Refusal, ReleaseOrder, SettleOrder
from routing.metering.session import CONNECTION_ERRORS, ITEM_ERRORS, Session
from routing.metering.settlements import SWEEP_BATCH, sweep
from routing.metering.tickets import Outcome, Ticket, new_event

log = logging.getLogger("gateway.ledger")
BATCH_MAX = 200
# A hold is refused with 503 within two seconds of the database's silence; a retry sooner than this
# would only burn CPU.
_RETRY_S = 0.2
HOLD_WAIT_S = 1.8


class LedgerWriter:
    """Queue in front, one transaction at a time behind. All methods are safe from any greenlet."""

    def __init__(self, *, open_session: Callable[[], Session] = Session) -> None:
        self._open_session = open_session
        self._queue: deque[Ticket] = deque()
        self._lock = threading.Lock()
        self._work = new_event()
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        self._counters = CounterIds()
        self._next_sweep_at = 0.0
        self._stopping = False

    # --- For requests ---------------------------------------------------------------------------

    def submit(self, order: Order) -> Ticket:
        """Queue an order. Raises `Unavailable` when the queue is full (settlements always fit)."""
        closing = isinstance(order, SettleOrder | ReleaseOrder)
        if len(self._queue) >= settings.LEDGER_QUEUE_MAX and not closing:
            raise Unavailable
        ticket = Ticket(order)
        self._queue.append(ticket)
        self._work.set()
        thread = self._thread
        if thread is None or not thread.is_alive():
            self._start()
        return ticket

    def wait(self, ticket: Ticket, timeout_s: float) -> bool | Refusal:
        """The outcome of an order. Raises `Unavailable` when it did not come in time.

        A ticket that was given up is abandoned: should its hold be placed all the same, the writer
        releases it.
        """
        try:
            in_time = ticket.done.wait(timeout_s)
        except BaseException:  # GreenletExit too: whoever leaves must not leave a hold behind.
            self._abandon(ticket)
            raise
        if not in_time:
            self._abandon(ticket)
            raise Unavailable
        outcome = ticket.outcome
        if isinstance(outcome, Exception):
            raise Unavailable from outcome
        assert outcome is not None
        return outcome

    def _abandon(self, ticket: Ticket) -> None:
        ticket.abandoned = True
        if ticket.done.is_set() and ticket.outcome is True:
            self._release_if_hold(ticket)

    def _release_if_hold(self, ticket: Ticket) -> None:
        order = ticket.order
        if isinstance(order, HoldOrder):
            self.submit(ReleaseOrder(order.generation_id, order.payer))

    # --- The writer's own thread ----------------------------------------------------------------

    def start(self) -> None:
        """Begin now rather than with the first order, so that expired holds are swept."""
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float = 5) -> None:
        """Carry out what is queued, then end. For orderly shutdowns and tests."""
        self._stopping = True
        self._work.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        self._stopping = False

    def _run(self) -> None:
        try:
            while not (self._stopping and not self._queue):
                self._work.wait(self._idle_s())
                self._work.clear()
                self._sweep_if_due()
                while self._queue:
                    self._commit(self._take())
        except BaseException:
            log.exception("The ledger writer died")
            self._fail_all()
            raise
        finally:
            self._close()
            self._hand_over()

    def _hand_over(self) -> None:
        """From here on a submitted order starts a new thread; for those that came in while this one
        was ending, nobody else would."""
        with self._lock:
            self._thread = None
        if self._queue:
            self._start()

    def _take(self) -> list[Ticket]:
        batch: list[Ticket] = []
        while self._queue and len(batch) < BATCH_MAX:
            ticket = self._queue.popleft()
            if ticket.abandoned and isinstance(ticket.order, HoldOrder):
                if ticket.order.replayed:
                    self._release_if_hold(ticket)
                continue
            batch.append(ticket)
        return batch

    def _commit(self, batch: list[Ticket]) -> None:
        """Carry a batch to its end: committed, or each item failed by name."""
        while batch:
            try:
                outcomes = native(Lane.LEDGER, partial(self._transaction, batch))
            except ITEM_ERRORS as error:
                self._close()
                if len(batch) > 1:
                    for ticket in batch:
                        self._commit([ticket])
                    return
                # The rest of the text quotes the row.
                reason = (str(error).splitlines() or [""])[0]
                generation = batch[0].order.generation_id
                log.error("The ledger refused an item, %s: %s", generation, reason)
                self._free_refused(batch[0].order)
                batch[0].finish(error)
                return
            except (*CONNECTION_ERRORS, DatabaseError, InterfaceError) as error:
                self._close()
                batch = self._after_lost_connection(batch, error)
            except BaseException:
                for ticket in batch:
                    ticket.finish(Unavailable())
                raise
            else:
                self._finish(batch, outcomes)
                return

    def _transaction(self, batch: list[Ticket]) -> list[Outcome]:
        if self._session is None:
            self._session = self._open_session()
        session = self._session
        enforced = settings.BILLING_ENFORCED
        outcomes: list[Outcome] = [True] * len(batch)
        orders = [ticket.order for ticket in batch]
        if not apply_merged(session, self._counters, orders, enforced=enforced):
            session.rollback()
            session.begin()
            outcomes = apply_batch(session, self._counters, batch, enforced=enforced)
        session.commit()
        self._counters.committed()
        return outcomes

    def _finish(self, batch: list[Ticket], outcomes: list[Outcome]) -> None:
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.finish(outcome)
            if ticket.abandoned and outcome is True:
                self._release_if_hold(ticket)

    def _after_lost_connection(self, batch: list[Ticket], error: Exception) -> list[Ticket]:
        """What to try again: the commit's outcome is unknown, so by id and only once each."""
        log.warning("The ledger's database does not answer: %s", error)
        new_event().wait(_RETRY_S)
        again: list[Ticket] = []
        for ticket in batch:
            order = ticket.order
            if isinstance(order, HoldOrder):
                ticket.order = replace(order, replayed=True)
            elif not isinstance(order, SettleOrder | ReleaseOrder):
                ticket.finish(error)  # A raise cannot be told from its replay: refuse it.
                continue
            if ticket.abandoned and isinstance(order, HoldOrder):
                self._release_if_hold(ticket)
            else:
                again.append(ticket)
        return again

    def _free_refused(self, order: Order) -> None:
        """A settlement that cannot be written must not keep its hold until the lease ends."""
        if isinstance(order, SettleOrder):
            self.submit(ReleaseOrder(order.generation_id, order.payer))

    def _fail_all(self) -> None:
        while self._queue:
            self._queue.popleft().finish(Unavailable())

    def _close(self) -> None:
        session, self._session = self._session, None
        self._counters.rolled_back()
        if session is not None:
            native(Lane.LEDGER, session.close_quietly)

    # --- The sweep ------------------------------------------------------------------------------

    def _idle_s(self) -> float:
        return max(0.01, min(self._next_sweep_at - time.monotonic(), settings.HOLD_SWEEP_SECONDS))

    def _sweep_if_due(self) -> None:
        if time.monotonic() < self._next_sweep_at:
            return
        self._next_sweep_at = time.monotonic() + settings.HOLD_SWEEP_SECONDS
        try:
            freed = native(Lane.LEDGER, self._sweep)
        except (*CONNECTION_ERRORS, *ITEM_ERRORS, DatabaseError, InterfaceError) as error:
            log.warning("The sweep of expired holds failed: %s", error)
            self._close()
        else:
            if freed:
                log.warning("Freed %d expired holds; their generations are marked lost", freed)

    def _sweep(self) -> int:
        if self._session is None:
            self._session = self._open_session()
        return sweep_all(self._session, datetime.now(UTC))


def sweep_all(session: Session, now: datetime) -> int:
    """Sweep in batches, a transaction each, until none is left. Returns how many were freed."""
    total = 0
    while True:
        session.begin()
        freed = sweep(session, now)
        session.commit()
        total += freed
        if freed < SWEEP_BATCH:
            return total


ledger = LedgerWriter()
