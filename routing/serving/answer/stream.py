"""Answering as a stream: commitment, fallback, keep-alives, hang-ups.

One greenlet carries a stream from the upstream's socket to the caller's; it holds no database
connection. Its generator first yields an empty string: the moment of commitment, up to which a
failure is an ordinary HTTP error.
"""

from functools import partial

from gevent import GreenletExit

from gateway.eventloop import yield_control
from gateway.http.errors import GatewayError, Unavailable, forget_origin
from gateway.http.responses import log
from gateway.live_settings import settings
from gateway.outbound.errors import Aborted, BodyTooLarge, OutboundError
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from routing.plugins.interface import list_citations
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.answer.relays import RescueRelay
from routing.serving.answer.schema_repair import check_stream
from routing.serving.answer.stream_setup import (
    Echo,
    begin_rescue,
    build_relay,
    choose_writer,
    flush_guard,
    note_unread,
)
from routing.serving.answer.stream_waits import CallerGone, WaitingStream, Work
from routing.serving.attempts.attempts import record_success
from routing.serving.attempts.hedging import build_attempts
from routing.serving.attempts.relay import Relay
from routing.serving.attempts.upstream_call import read_to_end, refuse_other_than_events, send
from routing.serving.request import process
from routing.serving.request.client_watch import ClientWatch
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import (
    Outcome,
    abandoned_outcome,
    measure_usage,
    own_usage,
    report_usage,
)
from routing.serving.request.rescue import Rescue
from routing.serving.request.stickiness import remember
from routing.serving.settlement.booking import settle, settle_failure, stream_outcome
from routing.serving.settlement.router_metadata import build_wanted_metadata
from routing.statistics.observation import record_attempt
from routing.upstreams.failures import UpstreamFailure, from_outbound_error, refused_answer

# Chunks are several times the size of the events they come from, and all of them wait for a caller
# who does not read. So a fast upstream's bytes are taken in parts.
_PART_BYTES = 16_384
# A write has `ROUTER_STALLED_READER_SECONDS`, and one who reads slowly is not one who has stopped.
_WRITE_BYTES = 65_536
# The end of a body that guards look at.
_END_WAIT_S = 0.05


class AnswerStream(WaitingStream):
    """One streamed call. A caller who left pays for what was produced."""

    def __init__(self, progress: RequestProgress, client: object) -> None:
        super().__init__(progress)
        if progress.context.wants_rescue and progress.loop is None:
            progress.rescue = Rescue(progress.context.chat)
        self._attempts = build_attempts(progress)
        self._watch = ClientWatch(client, self._on_hang_up)
        self._work = self._serve()
        self._stalled_s = settings.ROUTER_STALLED_READER_SECONDS
        self._attempt: Attempt | None = None
        self._rest = b""
        self._debug = b""
        self._echo = Echo()

    # --- The work -------------------------------------------------------------------------------

    def _serve(self) -> Work[None]:
        try:
            yield from self._try_all()
        except (CallerGone, GeneratorExit):
            self._gone = True
        except GatewayError as error:
            outcome = self._settle_failure(error)
            if not self._committed:
                raise
            yield from self._end_with(error, outcome)
        except GreenletExit:
            # The worker is stopping: the caller hears it while there is still time. One who has
            # left pays for what was produced.
            self._stopping |= self._gone
            if not self._gone:
                self._settle_failure(Unavailable(), wait=False)
            if self._committed:
                yield from self._end_with(Unavailable())
            else:
                raise
        except Exception as error:  # A bug: the hold is settled, and the stream gets an end.
            self._settle_failure(GatewayError())
            if not self._committed:
                raise
            log.exception("A stream failed", exc_info=error)
            yield from self._end_with(GatewayError())
        finally:
            self._wind_up()

    def _try_all(self) -> Work[None]:
        if not (yield from self._try_endpoints()):
            raise self._attempts.error()

    def _try_endpoints(self) -> Work[bool]:
        """Whether some endpoint has answered."""
        for attempt in self._attempts:
            try:
                yield from self._try(attempt)
            except UpstreamFailure as failure:
                if self._gone:
                    forget_origin(failure)
                    raise CallerGone from None
                # Of a race it is the other one.
                attempt, relay = self._attempt or attempt, self._relay
                self._attempts.record_failure(attempt, failure)
                if relay is not None and relay.started:
                    if not begin_rescue(self._progress, attempt, relay):
                        raise self._attempts.error() from failure
                    # What it said is in the books.
                    self._relay = None
                elif relay is not None and relay.seen:
                    note_unread(self._progress, attempt, relay)
                self._close_reply()
            else:
                return True
        return False

    def _try(self, attempt: Attempt) -> Work[None]:
        progress = self._progress
        self._abort, self._attempt, self._relay = AbortHandle(), attempt, None
        self._rest = b""
        relay = build_relay(progress, attempt)
        if progress.context.chat.echo_upstream_body and attempt.request is not None:
            self._debug += self._echo.show(relay.writer, attempt.request)
            if self._committed:
                yield self._take_debug()
        if self._gone:
            raise CallerGone
        try:
            reply = yield from self._open_reply(attempt, relay)
            attempt, relay = self._attempt or attempt, self._relay or relay
            yield from self._carry(attempt, relay, reply)
        except Aborted as error:
            forget_origin(error)
            raise CallerGone from None
        except OutboundError as error:
            failure = from_outbound_error(error)
            # It served to the last; how long that takes is up to the caller's reading as well.
            failure.outage = failure.outage and not (failure.deadline and relay.started)
            if isinstance(error, BodyTooLarge) and isinstance(relay, RescueRelay):
                # Nobody makes an answer longer that is too long already.
                relay.can_go_on = False
            raise failure from error
        yield from self._finish(attempt, relay, reply)

    def _open_reply(self, attempt: Attempt, relay: Relay) -> Work[Reply]:
        self._reply = reply = yield from self._await_reply(
            relay, lambda: send(self._progress, attempt, abort_handle=self._abort)
        )
        refuse_other_than_events(reply, attempt)
        self._relay = relay
        return reply

    def _carry(self, attempt: Attempt, relay: Relay, reply: Reply) -> Work[None]:
        """Upstream bytes in, the caller's events out, until the upstream's end."""
        commit_at = process.now() + settings.ROUTER_STREAM_COMMIT_SECONDS
        while not relay.ended:
            due_at = self._keep_alive_at() if self._committed else commit_at
            piece: bytes | None
            if self._rest:
                # Bytes that are always there never let a read wait: other streams get their turn.
                yield_control()
                piece, self._rest = self._rest[:_PART_BYTES], self._rest[_PART_BYTES:]
            else:
                piece = reply.read_some(max(0.0, due_at - process.now()))
                if piece and len(piece) > _PART_BYTES:
                    piece, self._rest = piece[:_PART_BYTES], piece[_PART_BYTES:]
            if self._gone:
                relay.feed_unread(piece)
                raise CallerGone
            if piece is not None and self._asks_guards:
                out = yield from self._feed_guarded(attempt, relay, reply, piece)
            else:
                out = b"" if piece is None else relay.feed_bytes(piece)
            if attempt.first_token is None and (relay.started or relay.produced_chars):
                attempt.first_token = process.now()
            # An upstream that keeps saying nothing, in comments, commits as late as a silent one.
            if not self._committed and (relay.seen or process.now() >= commit_at):
                yield from self._commit()
                if not out:
                    # The server writes the headers with the first piece it is given.
                    yield b""
            if not out and self._committed and process.now() >= self._keep_alive_at():
                out = relay.writer.keep_alive
            if out:
                reply.pause_idle()
                began = process.now()
                for start in range(0, len(out), _WRITE_BYTES):
                    yield out[start : start + _WRITE_BYTES]
                self._wrote_at = process.now()
                attempt.held_up_s += self._wrote_at - began
                reply.resume_idle()
            if relay.failure is not None:
                raise relay.failure

    def _finish(self, attempt: Attempt, relay: Relay, reply: Reply) -> Work[None]:
        """Charge first; only then does the caller see the end."""
        progress = self._progress
        self._accept(attempt, relay)
        if self._asks_guards:
            usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
            settle_attempt(attempt, usage.total_tokens)
            self._let_upstream_go(reply)
        rest = yield from self._let_guard_look(relay, partial(flush_guard, relay))
        check_stream(progress, relay.finish_reason)
        outcome = stream_outcome(progress, attempt, relay, cancelled=False)
        before = sum(leg.usage.completion_tokens for leg in progress.legs)
        tokens = outcome.usage.completion_tokens - before
        record_attempt(attempt, streamed=True, tokens=tokens, tools_good=relay.tool_calls.good)
        used = own_usage(attempt, outcome)
        keep = partial(remember, progress.context.conversation_key, attempt.endpoint, used)
        settle(progress, outcome, meanwhile=keep)
        metadata = build_wanted_metadata(progress, selected=attempt)
        report = report_usage(outcome, attempt)
        if not self._committed:
            yield from self._commit()
        # The end of the body is mostly here by now; read, it lets the connection be used again.
        read_to_end(reply)
        cited = relay.write_citations(list_citations(progress.context.plugins))
        yield rest + cited + relay.write_closing(report, metadata)

    def _accept(self, attempt: Attempt, relay: Relay) -> None:
        """Raises `UpstreamFailure` for a refusal where another model may do better."""
        rescue = self._progress.rescue
        is_open = relay.started or (rescue is not None and rescue.legs)
        refusal = not is_open and relay.finish_reason == "content_filter"
        if refusal and self._attempts.has_another_model(attempt):
            # Nothing was written yet.
            raise refused_answer()
        attempt.ended, attempt.upstream_id = process.now(), relay.upstream_id
        record_success(attempt)

    def _commit(self) -> Work[None]:
        self._committed = True
        self._wrote_at = process.now()
        yield b""
        if self._debug:
            yield self._take_debug()

    def _take_debug(self) -> bytes:
        debug, self._debug = self._debug, b""
        return debug

    def _end_with(self, error: GatewayError, outcome: Outcome | None = None) -> Work[None]:
        """The last thing on the stream. `outcome` is what the books say of it."""
        if self._gone:
            return
        progress, attempt, relay = self._progress, self._attempt, self._relay
        assert attempt is not None
        # What ends so is no answer for others, whatever was booked.
        progress.good_end = None
        metadata = build_wanted_metadata(progress, selected=None) if error.status != 500 else None
        finishes = error.error_type in progress.context.format.finishing_errors
        if finishes and outcome is not None and relay is not None and relay.started:
            yield relay.write_closing(
                report_usage(outcome, attempt), metadata, failure=error.body()
            )
        else:
            writer = (
                relay.writer if relay else self._echo.catch_up(choose_writer(progress, attempt))
            )
            yield writer.error(error.body(), router_metadata=metadata)

    # --- The books ------------------------------------------------------------------------------

    def _settle_failure(self, error: GatewayError, *, wait: bool = True) -> Outcome | None:
        args = (self._progress, self._attempts, self._attempt, self._relay)
        return settle_failure(*args, error, wait=wait)

    # --- Hang-ups -------------------------------------------------------------------------------

    def _on_hang_up(self) -> None:
        """Also close an upstream that stops its bill then."""
        super()._on_hang_up()
        if self._progress.waiting is not None:
            self._progress.waiting.give_up()
        attempt = self._attempt
        if attempt is not None and attempt.endpoint.supports_cancellation:
            self._abort.abort()

    def _wind_up(self) -> None:
        """Last of all, in every outcome: settle what a caller who left owes, free the upstream."""
        try:
            if not self._progress.settled:
                self._settle_hang_up()
        finally:
            self._attempts.end_probe()
            self._close_reply()
            if self._relay is not None and self._relay.failure is not None:
                forget_origin(self._relay.failure)

    def _settle_hang_up(self) -> None:
        attempt, relay, reply = self._attempt, self._relay, self._reply
        if attempt is None:
            self._progress.settled = True
            self._attempts.release()
        elif relay is None or (reply is None and (attempt.failure or not attempt.ended)):
            settle(self._progress, abandoned_outcome(self._progress), wait=False)
        else:
            try:
                relay.feed_unread(self._rest or None)
                is_cut = attempt.endpoint.supports_cancellation or self._stopping
                if reply is not None and not is_cut:
                    # Not every caller who is given up has closed its end.
                    self._watch.cut()
                    self._drain_upstream(relay, reply)
            finally:
                attempt.ended, attempt.upstream_id = process.now(), relay.upstream_id
                if relay.started:
                    record_attempt(attempt, streamed=True)
                ended = stream_outcome(self._progress, attempt, relay, cancelled=True)
                settle(self._progress, ended, wait=False)

    def _drain_upstream(self, relay: Relay, reply: Reply) -> None:
        """Read an upstream that bills to its end, within the limits of every call."""
        reply.resume_idle()
        try:
            while not relay.ended:
                piece = reply.read_some()
                relay.feed_unread(piece)
                if not piece:
                    return
                if len(piece) > _PART_BYTES:
                    yield_control()
        except OutboundError as error:
            log.info("An upstream read out for a caller who left ended early: %s", error)
            forget_origin(error)

    def _let_upstream_go(self, reply: Reply) -> None:
        """Close a reply that has ended before others are asked: its connection can be used again
        where the end of the body comes at once."""
        read_to_end(reply, wait_s=_END_WAIT_S if self._asks_guards else 0.0)
        self._close_reply()

    def _close_reply(self) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()
