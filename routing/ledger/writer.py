"""The ledger writer: one per web process, and the only one that writes money.

Requests hand it orders and wait. It takes all that have queued since its last commit, applies them
in one transaction and wakes the waiters. Alone, a request pays one commit; under load fifty share
one. It owns one connection outside every pool, starts lazily (so after a fork), and sweeps expired
holds by itself. Nobody may wait on it while holding a database connection.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from gateway.database.db import Lane, run_native
from gateway.eventloop import yield_control
from gateway.http.errors import Unavailable
from gateway.live_settings import settings
from routing.ledger.batch import apply_batch, apply_one_by_one
from routing.ledger.counters import CounterCache
from routing.ledger.db_errors import (
    ERRORS,
    ConnectionNotOpened,
    FailureKind,
    FailureLog,
    classify_error,
    is_reported_by_server,
    log_refused,
    log_unbooked,
)
from routing.ledger.orders import CLOSING, HoldOrder, Order, ReleaseOrder, SettleOrder, is_replayed
from routing.ledger.session import LedgerSession, Watchdog
from routing.ledger.sweep import SWEEP_BATCH, sweep_expired
from routing.ledger.tickets import Backlog, Outcome, Ticket, TicketTimeouts, Verdict, new_event

log = logging.getLogger("gateway.ledger")
BATCH_MAX = 200
# A hold is refused with 503 within two seconds of the database's silence; a retry sooner than this
# would only burn CPU.
_RETRY_S = 0.2
HOLD_WAIT_S = 1.7
# More than a writer makes in the second between two looks.
_COMMITS_MAX = 2_000


class LedgerWriter:
    """Queue in front, one transaction at a time behind. All methods are safe from any greenlet."""

    def __init__(self, *, open_session: Callable[[], LedgerSession] = LedgerSession) -> None:
        self._open_session = open_session
        self._queue: deque[Ticket] = deque()
        # Orders that some batch failed with: each is carried out in a transaction of its own.
        self._singles: deque[Ticket] = deque()
        self._backlog = Backlog()
        self._batch: list[Ticket] = []
        self._lock = threading.Lock()
        self._work = new_event()
        self._thread: threading.Thread | None = None
        self._session: LedgerSession | None = None
        self._counters = CounterCache()
        self._next_sweep_at = 0.0
        self._patience = TicketTimeouts()
        self._watchdog = Watchdog(lambda: self._session)
        self._complaints = FailureLog()
        # From the moment a COMMIT leaves until its answer is here, its outcome is unknown.
        self._committing = False
        self._stopping = self._given_up = False
        self._was_alone = True
        # The size of each batch that was committed and the seconds it took, until metrics take it.
        self.commits: deque[tuple[int, float]] = deque(maxlen=_COMMITS_MAX)

    @property
    def queue_depth(self) -> int:
        """Orders that wait, those put aside included."""
        return len(self._queue) + len(self._singles) + len(self._backlog.tickets)

    # --- For requests ---------------------------------------------------------------------------

    def submit(self, order: Order) -> Ticket:
        """Queue an order. Raises `Unavailable` when the queue is full (settlements always fit)."""
        is_full = len(self._queue) >= settings.LEDGER_QUEUE_MAX
        if is_full and not isinstance(order, CLOSING):
            raise Unavailable
        ticket = Ticket(order)
        self._queue.append(ticket)
        self._work.set()
        if self._thread is None:
            self.start()
        return ticket

    def wait(self, ticket: Ticket, timeout_s: float) -> Verdict:
        """The outcome of an order. Raises `Unavailable` when it did not come in time.

        A ticket that was given up is abandoned: should its hold be placed all the same, the writer
        releases it.
        """
        try:
            in_time = self._patience.wait(ticket, timeout_s)
        except BaseException:  # GreenletExit too: a caller who leaves must not leave a hold behind.
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
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._begin()

    def _begin(self) -> None:
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5) -> None:
        """Carry out what is queued, then end. For orderly shutdowns and tests.

        What cannot be booked in time is logged, a line for each charge, and let go.
        """
        self._stopping = True
        self._backlog.hurry()
        self._work.set()
        if not self._ends_by(time.monotonic() + timeout_s):
            self._given_up = True
            self._work.set()
            log_unbooked([*self._batch, *self._backlog.tickets, *self._singles, *self._queue])
        self._stopping = False

    def _ends_by(self, deadline: float) -> bool:
        """Whether the writer has ended, and one that took over from a dead one too."""
        while True:
            with self._lock:
                thread = self._thread
            if thread is None or not thread.is_alive():
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            thread.join(left_s)

    def _run(self) -> None:
        try:
            with self._watchdog:
                while not self._is_done():
                    if not self._queue and not self._singles:
                        next_at = self._next_sweep_at
                        if self._backlog:
                            next_at = min(next_at, self._backlog.due_at)
                        self._work.wait(
                            max(0.01, min(next_at - time.monotonic(), settings.HOLD_SWEEP_SECONDS))
                        )
                        self._work.clear()
                    self._sweep_if_due()
                    if self._backlog:
                        self._commit(self._backlog.take(BATCH_MAX))
                    if len(self._queue) > self._was_alone:
                        # Orders about to be placed are waited for: a larger batch costs each
                        # of them less (measured).
                        yield_control(rounds=2)
                    batch = self._take_batch()
                    self._was_alone = len(batch) <= 1
                    self._commit(batch)
        except BaseException:
            log.exception("The ledger writer died")
            self._fail_all()
            raise
        finally:
            self._close()
            # From here on a submitted order starts a new thread; for those that came
            # in while this one was ending, nobody else would.
            with self._lock:
                self._thread = None
                if self._given_up:
                    for waiting in self._singles, self._queue, self._backlog.tickets:
                        while waiting:
                            waiting.popleft().finish(Unavailable())
                elif self._queue or self._singles or self._backlog:
                    self._begin()

    def _is_done(self) -> bool:
        if not self._stopping or self._given_up:
            return self._given_up
        return not (self._queue or self._singles or self._backlog)

    def _take_batch(self) -> list[Ticket]:
        waiting, maximum = (self._singles, 1) if self._singles else (self._queue, BATCH_MAX)
        batch: list[Ticket] = []
        while waiting and len(batch) < maximum:
            ticket = waiting.popleft()
            if ticket.abandoned and isinstance(ticket.order, HoldOrder):
                if ticket.order.replayed:
                    self._release_if_hold(ticket)
                continue
            batch.append(ticket)
        return batch

    def _commit(self, batch: list[Ticket]) -> None:
        """Carry a batch to its end: committed, refused by name, or put aside for later."""
        while batch:
            self._batch = batch
            begun = time.monotonic()
            try:
                outcomes = run_native(Lane.LEDGER, partial(self._transaction, batch))
            except ERRORS as error:
                batch = self._handle_failure(error, batch)
            except BaseException:
                self._salvage(batch)
                raise
            else:
                self.commits.append((len(batch), time.monotonic() - begun))
                if self._backlog:
                    self._backlog.hurry()
                for ticket, outcome in zip(batch, outcomes, strict=True):
                    ticket.finish(outcome)
                    if ticket.abandoned and outcome is True:
                        self._release_if_hold(ticket)
                batch = []
        self._batch = batch

    def _transaction(self, batch: list[Ticket]) -> list[Outcome]:
        self._committing = False
        session = self._ensure_session()
        enforced = settings.BILLING_ENFORCED
        outcomes: list[Outcome] = [True] * len(batch)
        orders = [ticket.order for ticket in batch]
        if not apply_batch(
            session, self._counters, orders, enforced=enforced, before_commit=self._mark_committing
        ):
            self._committing = False
            session.rollback()
            session.begin()
            outcomes = apply_one_by_one(session, self._counters, batch, enforced=enforced)
            self._mark_committing()
            session.commit()
        self._committing = False
        self._watchdog.busy_since = 0.0
        self._counters.keep_new()
        return outcomes

    def _mark_committing(self) -> None:
        self._committing = True

    def _ensure_session(self) -> LedgerSession:
        """The session, with the clock on whatever it is asked from here on."""
        session = self._session
        if session is None:
            try:
                session = self._session = self._open_session()
            except Exception as error:  # Whatever keeps it from opening, no order is at fault.
                raise ConnectionNotOpened(str(error)) from error
            self._watchdog.busy_since = time.monotonic()
            session.set_up()
        self._watchdog.busy_since = time.monotonic()
        return session

    # --- When it fails --------------------------------------------------------------------------

    def _handle_failure(self, error: Exception, batch: list[Ticket]) -> list[Ticket]:
        """Decide what becomes of a batch that failed. Returns what to try again now."""
        what = classify_error(error)
        doubtful = self._committing and not is_reported_by_server(error)
        self._close()
        if what in (FailureKind.ITEM, FailureKind.STRANGE) and len(batch) > 1:
            self._singles.extend(batch)
            return []
        if what is FailureKind.ITEM:
            ticket = batch[0]
            # Fail an order that cannot be written, by name, and free its hold.
            order = ticket.order
            log_refused(order.generation_id, error)
            log_unbooked([ticket])
            if isinstance(order, SettleOrder) or is_replayed(order):
                self.submit(ReleaseOrder(order.generation_id, order.payer))
            ticket.finish(error)
            return []
        self._complaints.report(what, error)
        if what is not FailureKind.PASSING or self._given_up:
            self._defer(batch, error, doubtful=doubtful)
            return []
        new_event().wait(_RETRY_S)
        return self._select_retries(batch, error, doubtful=doubtful)

    def _defer(self, batch: list[Ticket], error: Exception, *, doubtful: bool) -> None:
        """The database will not write for now: what was paid for waits, new calls are refused."""
        closing: list[Ticket] = []
        for ticket in batch:
            if isinstance(ticket.order, CLOSING):
                closing.append(ticket)
                continue
            if doubtful or is_replayed(ticket.order):
                order = ticket.order
                closing.append(Ticket(ReleaseOrder(order.generation_id, order.payer)))
            ticket.finish(error)
        if closing:
            self._backlog.put(closing)

    def _select_retries(
        self, batch: list[Ticket], error: Exception, *, doubtful: bool
    ) -> list[Ticket]:
        """What to try again. Where the outcome is unknown, by id and only once each."""
        again: list[Ticket] = []
        for ticket in batch:
            order = ticket.order
            if isinstance(order, HoldOrder):
                if ticket.abandoned:
                    if doubtful or order.replayed:
                        self._release_if_hold(ticket)
                    continue
                if doubtful:
                    ticket.order = order._replace(replayed=True)
            elif not isinstance(order, CLOSING):
                ticket.finish(error)  # A raise looks like its replay: refuse it.
                continue
            again.append(ticket)
        return again

    def _salvage(self, batch: list[Ticket]) -> None:
        """The writer dies of this batch. Its waiters get the error. A charge gets one more try,
        alone, in case it was not the one at fault."""
        for ticket in batch:
            order = ticket.order
            if isinstance(order, SettleOrder) and len(batch) == 1:
                log_unbooked(batch)
            elif isinstance(order, CLOSING):
                self._singles.append(Ticket(order))
            elif self._committing or is_replayed(order):
                self._singles.append(Ticket(ReleaseOrder(order.generation_id, order.payer)))
            ticket.finish(Unavailable())

    def _fail_all(self) -> None:
        """Tell all waiters; what closes a hold is left to the next writer."""
        for waiting in (self._singles, self._queue):
            for _ in range(len(waiting)):
                ticket = waiting.popleft()
                if isinstance(ticket.order, CLOSING):
                    waiting.append(Ticket(ticket.order))
                ticket.finish(Unavailable())

    def _close(self) -> None:
        session, self._session = self._session, None
        self._watchdog.busy_since = 0.0
        self._committing = False
        self._counters.drop_new()
        if session is not None:
            run_native(Lane.LEDGER, session.close_quietly)

    # --- The sweep ------------------------------------------------------------------------------

    def _sweep_if_due(self) -> None:
        if time.monotonic() < self._next_sweep_at:
            return
        self._next_sweep_at = time.monotonic() + settings.HOLD_SWEEP_SECONDS
        try:
            freed = run_native(Lane.LEDGER, self._sweep)
        except ERRORS as error:
            log.warning("The sweep of expired holds failed: %s", error)
            self._close()
        else:
            if freed == SWEEP_BATCH:
                self._next_sweep_at = 0.0  # There may be more, after the orders that wait.
            if freed:
                log.warning("Freed %d expired holds; their generations are marked lost", freed)

    def _sweep(self) -> int:
        session = self._ensure_session()
        session.begin()
        freed = sweep_expired(session, datetime.now(UTC))
        session.commit()
        self._watchdog.busy_since = 0.0
        return freed


ledger = LedgerWriter()
