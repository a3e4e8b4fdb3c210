"""What the books are told of a stream."""

from collections.abc import Callable

from gateway.http.errors import GatewayError, Unavailable
from gateway.http.responses import log
from routing.history.content_writer import wait_until_stored
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.relay import Relay
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import Outcome, answered, failed, measured, price
from routing.serving.settlement.booking import book, wait_for


def outcome_of(call: Call, attempt: Attempt, relay: Relay, *, cancelled: bool) -> Outcome:
    """The end of a stream that was answered, in full or up to where its caller left."""
    return answered(
        call,
        attempt,
        measured(call, attempt, relay.usage, relay.produced_chars),
        finish_reason=relay.finish_reason,
        native_finish=relay.native_finish,
        service_tier=relay.service_tier,
        cancelled=cancelled,
    )


def settle(
    call: Call, outcome: Outcome, *, wait: bool, meanwhile: Callable[[], None] | None = None
) -> None:
    """Tell the ledger; `meanwhile` is done while it works."""
    ticket = book(call, outcome)
    if ticket is None:
        return
    if meanwhile is not None:
        meanwhile()
    if wait:
        wait_for(ticket)
        wait_until_stored(call.content)


def settle_failure(
    call: Call,
    attempts: Attempts,
    attempt: Attempt | None,
    relay: Relay | None,
    error: GatewayError,
    *,
    wait: bool = True,
) -> Outcome | None:
    """Record a failed call; one that never reached an upstream only gives its hold back."""
    if call.settled:
        return None
    if attempt is None:
        call.settled = True
        attempts.release()
        return None
    outcome = _failed(call, attempt, relay, error)
    if call.content is not None:
        call.content.set_error(error)
    try:
        settle(call, outcome, wait=wait)
    except Unavailable:
        log.warning("%s is told before it is recorded", call.generation_id)
    return outcome


def _failed(call: Call, attempt: Attempt, relay: Relay | None, error: GatewayError) -> Outcome:
    if relay is None or not relay.seen:
        return failed(error, loop=call.loop)
    usage = measured(call, attempt, relay.usage, relay.produced_chars)
    return failed(error, usage=usage, cost=price(call, attempt, usage), loop=call.loop)
