"""Settlement: telling the ledger, once, how a request ended."""

from collections.abc import Callable
from types import TracebackType

from gevent import GreenletExit

from gateway.http.errors import GatewayError, Unavailable
from gateway.http.responses import log
from gateway.live_settings import settings
from routing.history.content_writer import queue_content, wait_until_stored
from routing.ledger.tickets import Ticket
from routing.ledger.writer import ledger
from routing.serving.admission import rate_limits
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.relay import Relay
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import Outcome, answered, failed, good_end, measured, price
from routing.serving.settlement.key_uses import uses
from routing.serving.settlement.records import settle_order


def book(progress: RequestProgress, outcome: Outcome) -> Ticket | None:
    """Tell the ledger how the call ended, unless it knows."""
    if progress.settled:
        return None
    progress.settled, progress.good_end = True, good_end(outcome)
    order = settle_order(progress, outcome)
    ticket = ledger.submit(order)
    uses.note(progress.context.payer.key_id, order.settled_at)
    rate_limits.settle(progress, outcome.usage)
    if progress.content is not None:
        queue_content(progress.content)
    return ticket


def wait_for(ticket: Ticket | None) -> None:
    if ticket is not None:
        ledger.wait(ticket, settings.LEDGER_TIMEOUT)


class Accounted:
    """Whatever ends the block is recorded: what was tried, and what that is owed by `owing`. A call
    that never reached an upstream only gives its hold back."""

    __slots__ = ("_attempts", "_owing", "_progress")

    def __init__(
        self,
        progress: RequestProgress,
        attempts: Attempts,
        owing: Callable[[GatewayError], Outcome] = failed,
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
        ticket = book(progress, self._owing(error))
        if wait:
            wait_for(ticket)


def outcome_of(
    progress: RequestProgress, attempt: Attempt, relay: Relay, *, cancelled: bool
) -> Outcome:
    """The end of a stream that was answered, in full or up to where its caller left."""
    return answered(
        progress,
        attempt,
        measured(progress, attempt, relay.usage, relay.produced_chars),
        finish_reason=relay.finish_reason,
        native_finish=relay.native_finish,
        service_tier=relay.service_tier,
        cancelled=cancelled,
    )


def settle(
    progress: RequestProgress,
    outcome: Outcome,
    *,
    wait: bool,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Tell the ledger; `meanwhile` is done while it works."""
    ticket = book(progress, outcome)
    if ticket is None:
        return
    if meanwhile is not None:
        meanwhile()
    if wait:
        wait_for(ticket)
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
    outcome = _failed(progress, attempt, relay, error)
    if progress.content is not None:
        progress.content.set_error(error)
    try:
        settle(progress, outcome, wait=wait)
    except Unavailable:
        log.warning("%s is told before it is recorded", progress.context.generation_id)
    return outcome


def _failed(
    progress: RequestProgress, attempt: Attempt, relay: Relay | None, error: GatewayError
) -> Outcome:
    if relay is None or not relay.seen:
        return failed(error, loop=progress.loop)
    usage = measured(progress, attempt, relay.usage, relay.produced_chars)
    return failed(error, usage=usage, cost=price(progress, attempt, usage), loop=progress.loop)
