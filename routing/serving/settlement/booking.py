"""Settlement: telling the ledger, once, how a request ended."""

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, TypeVar

from gevent import GreenletExit

from accounts.authentication import uses
from gateway.http.errors import GatewayError, Unavailable
from gateway.http.responses import log
from gateway.live_settings import settings
from routing.history.content_writer import queue_content, wait_until_stored
from routing.ledger.tickets import Ticket
from routing.ledger.writer import ledger
from routing.reports.report import RequestReport, publisher
from routing.serving.admission import rate_limits
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.relay import Relay
from routing.serving.attempts.upstream_call import wants_deadline
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import DeadlinePassed
from routing.serving.request.legs import sum_legs
from routing.serving.request.outcome import (
    CHARGE_MAX_NANO,
    Outcome,
    abandoned_outcome,
    answered_outcome,
    failed_outcome,
    good_end,
    guarded_finish,
    measure_usage,
    note_house_cost,
    price,
    unserved_outcome,
)
from routing.serving.settlement.records import build_report, replace_end, settle_order

T = TypeVar("T")


class Booking(NamedTuple):
    """The end of a call as the ledger has it. `report` is not published yet: its caller may still
    get something else. Requests of tools have none."""

    ticket: Ticket
    report: RequestReport | None


def book(progress: RequestProgress, outcome: Outcome) -> Booking | None:
    """Tell the ledger how the call ended, unless it knows."""
    if progress.settled:
        return None
    progress.settled, progress.good_end = True, good_end(outcome)
    if progress.output_guard is not None:
        progress.stages += progress.output_guard.take_stages()
    order = settle_order(progress, outcome)
    ticket = ledger.submit(order)
    uses.note(progress.context.payer.key_id, order.settled_at)
    rate_limits.settle(progress, outcome.usage)
    report = build_report(progress, outcome, order, ticket) if progress.parent is None else None
    if progress.content is not None:
        queue_content(progress.content)
    return Booking(ticket, report)


def publish(
    progress: RequestProgress, booking: Booking, error: BaseException | None = None
) -> None:
    """Publish how the call ended for its caller: by `error`, where that came in between."""
    report = booking.report
    if report is None:
        return
    if isinstance(error, GatewayError):
        report = replace_end(report, error)
    elif error is not None:
        is_stopping = isinstance(error, GreenletExit)
        report = replace_end(report, Unavailable() if is_stopping else GatewayError())
    progress.is_reported = True
    publisher.publish(report)


class FailureRecorder:
    """Whatever ends the block is recorded: what was tried, and what that is owed by `owing`. A call
    that never reached an upstream only gives its hold back."""

    __slots__ = ("_attempts", "_owing", "_progress")

    def __init__(
        self,
        progress: RequestProgress,
        attempts: Attempts,
        owing: Callable[[GatewayError], Outcome] = failed_outcome,
    ) -> None:
        self._progress = progress
        self._attempts = attempts
        self._owing = owing

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GatewayError):
            self._record(error)
        elif isinstance(error, GreenletExit):
            # The worker is stopping: there is time to tell the caller, none to wait for the ledger.
            self._record(Unavailable(), wait=False)
            raise Unavailable from error
        elif isinstance(error, Exception):
            # A bug of ours must not keep the caller's money held until the lease ends.
            self._record(GatewayError())

    def _record(self, error: GatewayError, *, wait: bool = True) -> None:
        progress, attempts = self._progress, self._attempts
        attempts.end_probe()
        if not progress.attempts:
            attempts.release()
            return
        if progress.content is not None and not progress.settled:
            progress.content.set_error(error)
        settle(progress, self._owing(error), wait=wait)


def stream_outcome(
    progress: RequestProgress, attempt: Attempt, relay: Relay, *, cancelled: bool
) -> Outcome:
    """The end of a stream that was answered, in full or up to where its caller left."""
    return answered_outcome(
        progress,
        attempt,
        measure_usage(progress, attempt, relay.usage, relay.produced_chars),
        finish_reason=guarded_finish(progress, relay.finish_reason),
        native_finish=relay.native_finish,
        service_tier=relay.service_tier,
        cancelled=cancelled,
    )


def settle(
    progress: RequestProgress,
    outcome: Outcome,
    *,
    wait: bool = True,
    meanwhile: Callable[[], T] | None = None,
) -> T | None:
    """Book the end. `meanwhile` is done while the ledger works, and its result is returned; with
    `wait` nothing goes on before the charge is in the books."""
    booking = book(progress, outcome)
    if booking is None:
        return None
    try:
        try:
            result = None if meanwhile is None else meanwhile()
        finally:
            if wait:
                _wait_for_books(progress, booking)
    except BaseException as error:
        publish(progress, booking, error)
        raise
    publish(progress, booking)
    return result


def _wait_for_books(progress: RequestProgress, booking: Booking) -> None:
    ledger.wait(booking.ticket, settings.LEDGER_TIMEOUT)
    if progress.content is not None:
        wait_until_stored(progress.content)


def settle_failure(
    progress: RequestProgress,
    attempts: Attempts,
    attempt: Attempt | None,
    relay: Relay | None,
    error: GatewayError,
    *,
    wait: bool = True,
) -> Outcome | None:
    """Record a failed call; one that never reached an upstream only gives its hold back."""
    if progress.settled:
        return None
    if attempt is None:
        progress.settled = True
        attempts.release()
        return None
    outcome = _failed_outcome(progress, attempt, relay, error)
    if progress.content is not None:
        progress.content.set_error(error)
    booking = book(progress, outcome)
    assert booking is not None
    # The caller gets the failure, whatever becomes of its record.
    publish(progress, booking)
    try:
        if wait:
            _wait_for_books(progress, booking)
    except Unavailable:
        log.warning("%s is told before it is recorded", progress.context.generation_id)
    return outcome


def _failed_outcome(
    progress: RequestProgress, attempt: Attempt, relay: Relay | None, error: GatewayError
) -> Outcome:
    if isinstance(error, DeadlinePassed) and wants_deadline(progress.context.chat):
        # A caller who ends a stream by a time of his own pays for what he read, as one who leaves.
        if relay is not None and relay.started:
            return stream_outcome(progress, attempt, relay, cancelled=True)
        loop, rescue = progress.loop, progress.rescue
        if (loop is not None and loop.turns) or (rescue is not None and rescue.legs):
            return abandoned_outcome(progress)
    if relay is None or not relay.seen:
        return unserved_outcome(progress, error)
    usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
    note_house_cost(progress, attempt, usage)
    cost = price(progress, attempt, usage)
    if legs := progress.legs:
        usage, cost = sum_legs(legs, usage, cost, most_nano=CHARGE_MAX_NANO)
    return failed_outcome(error, usage=usage, cost=cost, loop=progress.loop)
