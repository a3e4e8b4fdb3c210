"""What a stream needs before its first byte. That is a writer and a relay for the attempt, what the
one before has said, and a reply that another greenlet waits for."""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import orjson
from django.conf import settings

from gateway.outbound.reply import Reply
from routing.entities.exchange import WireRequest
from routing.formats.caller import StreamWriter
from routing.guarding.stream_guard import GuardedWriter
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.answer.relays import LoopRelay, RescueRelay
from routing.serving.attempts.relay import Relay
from routing.serving.attempts.upstream_call import catch_errors
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.legs import Leg
from routing.serving.request.outcome import measure_usage, note_house_cost, price
from routing.upstreams.wires import get_wire

T = TypeVar("T")


def choose_writer(progress: RequestProgress, attempt: Attempt) -> StreamWriter:
    """The writer of what the caller gets of this attempt. A loop that has begun has one for all
    turns, and a stream that is rescued one for all parts."""
    if progress.rescue is not None and progress.rescue.writer is not None:
        return progress.rescue.writer
    if progress.loop is not None and progress.loop.writer is not None:
        writer: StreamWriter = progress.loop.writer
        return writer
    plain = progress.context.format.writer(
        progress.context.identify_answer(attempt), progress.context.chat
    )
    guard = progress.output_guard
    return plain if guard is None else GuardedWriter(plain, guard, progress.listener)


def flush_guard(relay: Relay) -> bytes:
    """What output filters have held back, at the end of what the model says."""
    return relay.writer.flush() if isinstance(relay.writer, GuardedWriter) else b""


class Echo:
    """What endpoints were sent, for callers who want to see it."""

    def __init__(self) -> None:
        self._bodies: list[Any] = []

    def show(self, writer: StreamWriter, request: WireRequest) -> bytes:
        """The next one; a writer that numbers its events goes on from those before."""
        self.catch_up(writer)
        self._bodies.append(orjson.loads(request.body))
        return writer.debug(self._bodies[-1])

    def catch_up(self, writer: StreamWriter) -> StreamWriter:
        """The writer, once it has counted what was shown so far."""
        for body in self._bodies:
            writer.debug(body)
        return writer


def build_relay(progress: RequestProgress, attempt: Attempt) -> Relay:
    """For the stream of this attempt, from its upstream's format into the caller's."""
    rescue, loop = progress.rescue, progress.loop
    relay: Callable[..., Relay] = Relay
    if loop is not None:
        relay = partial(LoopRelay, loop=loop)
    elif rescue is not None:
        seam = rescue.describe_seam(attempt) if rescue.legs else None
        is_prefilled = attempt.endpoint.pk in rescue.prefilled
        relay = partial(RescueRelay, rescue=rescue, seam=seam, is_prefilled=is_prefilled)
    # Where the text from here on is kept, if at all.
    goes_on = (loop is not None and loop.turns) or (rescue is not None and rescue.legs)
    if progress.content is not None and not goes_on:
        progress.content.begin()
    return relay(
        choose_writer(progress, attempt),
        get_wire(attempt.endpoint.wire_kind).reader(),
        passes=progress.passes_through(attempt),
        exclude_reasoning=progress.context.hides_reasoning,
        event_bytes_max=settings.ROUTER_MAX_EVENT_BYTES,
        # Where guardrails look at it, what the caller reads is kept.
        kept=progress.listener if progress.output_guard is None else None,
        new_call_id=progress.context.format.new_call_id,
    )


def note_unread(progress: RequestProgress, attempt: Attempt, relay: Relay) -> None:
    """Note what was said before it failed: nobody has read it, but its provider bills and counts
    it."""
    usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
    note_house_cost(progress, attempt, usage)
    if progress.loop is None:
        settle_attempt(attempt, usage.total_tokens)


def begin_rescue(progress: RequestProgress, attempt: Attempt, relay: Relay) -> bool:
    """Note what the attempt has said before it broke off, and what that costs; False where nobody
    can go on with it."""
    rescue = progress.rescue
    if rescue is None or not isinstance(relay, RescueRelay) or not relay.can_go_on:
        return False
    # Nobody pays for the rest of an answer that is kept back.
    if progress.output_guard is not None and progress.output_guard.withheld:
        return False
    usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
    note_house_cost(progress, attempt, usage)
    settle_attempt(attempt, usage.total_tokens)
    attempt.upstream_id = relay.upstream_id
    rescue.legs.append(Leg(attempt, usage, price(progress, attempt, usage)))
    rescue.delivered_text += relay.delivered_text
    rescue.writer = relay.writer
    chat = rescue.build_chat(prefills=False)
    demand = progress.context.demand._replace(
        text_bytes=chat.text_bytes,
        messages=chat.message_count,
        output_tokens_asked=chat.max_output_tokens,
    )
    progress.context = progress.context._replace(chat=chat, demand=demand)
    return True


class PendingWork(Generic[T]):
    """Runs `work` at once. Needs gevent."""

    def __init__(self, work: Callable[[], T]) -> None:
        from gevent import spawn

        self._job = spawn(catch_errors, work)

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it has ended within that time; None waits until it has."""
        self._job.join(timeout_s)
        return bool(self._job.ready())

    def result(self) -> T:
        """What `work` returned, or raised: `UpstreamFailure` or `OutboundError`."""
        result, error = self._job.get()
        if result is None:
            raise error
        found: T = result
        return found

    def stop(self) -> None:
        """End the work, and wait until it has ended."""
        self._job.kill()


class PendingReply(PendingWork[Reply]):
    """The same for a reply, which somebody has to close."""

    def wait_for_reply(self) -> Reply | None:
        """The reply, if there was one after all, once the work has ended."""
        self._job.join()
        reply, _ = self._job.get()
        return reply if isinstance(reply, Reply) else None

    def let_go(self) -> None:
        """Close the reply when it comes: nobody will ask for it any more."""
        self._job.link(_close_reply)


def _close_reply(job: Any) -> None:
    # A killed greenlet's value is the exception that ended it.
    if isinstance(job.value, tuple) and job.value[0] is not None:
        job.value[0].close()
