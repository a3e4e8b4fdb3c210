"""Telling the ledger how a call ended."""

from collections.abc import Callable
from types import TracebackType

from gevent import GreenletExit

from gateway.http.errors import GatewayError, Unavailable
from gateway.live_settings import settings
from routing.history.content_writer import queue_content
from routing.ledger.tickets import Ticket
from routing.ledger.writer import ledger
from routing.serving.admission import limiting
from routing.serving.attempts.attempts import Attempts
from routing.serving.request.call import Call
from routing.serving.request.outcome import Outcome, failed, good_end
from routing.serving.settlement.key_uses import uses
from routing.serving.settlement.records import settle_order


def book(call: Call, outcome: Outcome) -> Ticket | None:
    """Tell the ledger how the call ended, unless it knows."""
    if call.settled:
        return None
    call.settled, call.good_end = True, good_end(outcome)
    order = settle_order(call, outcome)
    ticket = ledger.submit(order)
    uses.note(call.payer.key_id, order.settled_at)
    limiting.settle(call, outcome.usage)
    queue_content(call.content)
    return ticket


def wait_for(ticket: Ticket | None) -> None:
    if ticket is not None:
        ledger.wait(ticket, settings.LEDGER_TIMEOUT)


class Accounted:
    """Whatever ends the block is recorded: what was tried, and what that is owed by `owing`. A call
    that never reached an upstream only gives its hold back."""

    __slots__ = ("_attempts", "_call", "_owing")

    def __init__(
        self, call: Call, attempts: Attempts, owing: Callable[[GatewayError], Outcome] = failed
    ) -> None:
        self._call = call
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
        call, attempts = self._call, self._attempts
        attempts.end_probe()
        if not call.attempts:
            attempts.release()
            return
        if call.content is not None and not call.settled:
            call.content.set_error(error)
        ticket = book(call, self._owing(error))
        if wait:
            wait_for(ticket)
