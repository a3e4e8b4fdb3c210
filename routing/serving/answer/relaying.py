"""The writer and the relay that a call's attempt takes."""

from functools import partial
from typing import Any

import orjson
from django.conf import settings

from routing.entities.exchange import WireRequest
from routing.formats.caller import StreamWriter
from routing.history.content_draft import ContentDraft
from routing.serving.attempts.relay import Relay
from routing.serving.request.call import Attempt, Call
from routing.serving.tool_loop.loop_relay import LoopRelay
from routing.upstreams.wires import wire_of


def writer_for(call: Call, attempt: Attempt) -> StreamWriter:
    """For what the caller is told of this attempt. A loop that has begun has one for all turns."""
    if call.loop is not None and call.loop.writer is not None:
        writer: StreamWriter = call.loop.writer
        return writer
    return call.format.writer(call.served(attempt), call.chat)


class Echo:
    """What endpoints were sent, for callers who want to see it."""

    def __init__(self) -> None:
        self._bodies: list[Any] = []

    def show(self, writer: StreamWriter, request: WireRequest) -> bytes:
        """The next one; a writer that numbers its events goes on from those before."""
        self.heard_by(writer)
        self._bodies.append(orjson.loads(request.body))
        return writer.debug(self._bodies[-1])

    def heard_by(self, writer: StreamWriter) -> StreamWriter:
        """The writer, once it has counted what was shown so far."""
        for body in self._bodies:
            writer.debug(body)
        return writer


def relay_for(call: Call, attempt: Attempt) -> Relay:
    """For the stream of this attempt, from its upstream's format into the caller's."""
    relay = Relay if call.loop is None else partial(LoopRelay, loop=call.loop)
    return relay(
        writer_for(call, attempt),
        wire_of(attempt.endpoint.provider.kind).reader(),
        passes=call.passes(attempt),
        exclude_reasoning=call.hides_reasoning,
        event_bytes_max=settings.ROUTER_MAX_EVENT_BYTES,
        kept=_begun(call),
        new_call_id=call.format.new_call_id,
    )


def _begun(call: Call) -> ContentDraft | None:
    """Where what is said from here on is kept, if at all."""
    if call.content is not None and (call.loop is None or not call.loop.turns):
        call.content.begin()
    return call.content
