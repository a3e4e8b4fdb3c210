"""Answering as a stream where a second endpoint is asked beside one that gives no content for a
while: see `routing.serving.attempts.hedging`."""

from functools import partial

from gateway.live_settings import settings
from gateway.outbound.errors import Aborted
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from routing.metering.usage import Usage
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.stream_setup import build_relay, note_unread
from routing.serving.answer.stream_waits import CallerGone, Work
from routing.serving.attempts.hedging import HedgingAttempts, Race
from routing.serving.attempts.relay import Relay
from routing.serving.attempts.upstream_call import refuse_other_than_events, send
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import measure_usage
from routing.upstreams.failures import UpstreamFailure
from routing.upstreams.wires import get_wire


class HedgedStream(AnswerStream):
    """See `AnswerStream`."""

    def __init__(self, progress: RequestProgress, client: object) -> None:
        super().__init__(progress, client)
        assert isinstance(self._attempts, HedgingAttempts)
        self._racers = self._attempts
        self._race: Race[_StreamCall] | None = None

    def _open_reply(self, attempt: Attempt, relay: Relay) -> Work[Reply]:
        if not self._racers.may_race(attempt):
            return (yield from super()._open_reply(attempt, relay))
        build_call = partial(_StreamCall, self._progress)
        self._race = race = Race(self._progress, self._racers, attempt, build_call)
        try:
            yield from self._await_content(race, relay)
        except GeneratorExit:
            self._on_hang_up()
            self._keep(race.leave())
            raise
        except BaseException:  # Also a greenlet being killed must not leave calls behind.
            race.cancel_all()
            raise
        finally:
            self._race = None
        if self._gone:
            self._keep(race.leave())
            raise CallerGone
        self._attempt = race.attempt
        if race.winner is None:
            assert race.failure is not None
            raise race.failure
        self._keep(race.winner, relay if race.attempt is attempt else None)
        assert self._reply is not None
        return self._reply

    def _await_content(self, race: "Race[_StreamCall]", relay: Relay) -> Work[None]:
        """Until the race is decided; the caller's connection is kept alive meanwhile. The stream is
        committed as late as that of a single endpoint."""
        commit_s = settings.ROUTER_STREAM_COMMIT_SECONDS
        while not race.wait(
            max(0.0, self._keep_alive_at() - process.now()) if self._committed else commit_s
        ):
            if self._committed:
                yield relay.writer.keep_alive
                self._wrote_at = process.now()
            elif any(call.has_waited(commit_s) for call in race.calls):
                yield from self._commit()
                # The server writes the headers with the first piece it is given.
                yield b""

    def _keep(self, call: "_StreamCall | None", relay: Relay | None = None) -> None:
        """Go on with this call alone, whose beginning is to be read again."""
        if call is None:
            return
        self._attempt, self._abort = call.attempt, call.abort
        if call.accepted is not None:
            self._relay = relay or build_relay(self._progress, call.attempt)
            self._reply, self._rest = call.accepted, b"".join(call.pieces)

    def _on_hang_up(self) -> None:
        super()._on_hang_up()
        if self._race is not None:
            self._race.abort()


class _StreamCall:
    """See `RacingCall`. `pieces` are what came until the first content, `accepted` is the reply
    once it is a stream."""

    def __init__(self, progress: RequestProgress, attempt: Attempt) -> None:
        self.attempt = attempt
        self.abort = AbortHandle()
        self.pieces: list[bytes] = []
        self.accepted: Reply | None = None
        self._accepted_at = 0.0
        self._reply: Reply | None = None
        self._progress = progress
        # It finds the first content and counts. What it writes nobody reads.
        self._relay = Relay(
            progress.context.format.writer(
                progress.context.identify_answer(attempt), progress.context.chat
            ),
            get_wire(attempt.endpoint.wire_kind).reader(),
            passes=False,
            exclude_reasoning=False,
            event_bytes_max=settings.ROUTER_MAX_EVENT_BYTES,
        )

    def has_waited(self, length_s: float) -> bool:
        """Whether it was accepted so long ago."""
        return self.accepted is not None and process.now() - self._accepted_at >= length_s

    def run(self) -> None:
        try:
            self._open()
            if self.abort.aborted:
                raise Aborted("the call was aborted", phase="body", bytes_received=0)
        except BaseException as error:
            if self._relay.seen and not isinstance(error, Aborted):
                note_unread(self._progress, self.attempt, self._relay)
            self.close()
            raise

    @property
    def is_silent(self) -> bool:
        return self._reply is None

    def find_failure(self) -> UpstreamFailure | None:
        return None

    def measure_bill(self) -> Usage | None:
        if self.accepted is None:
            return None
        relay = self._relay
        return measure_usage(self._progress, self.attempt, relay.usage, relay.produced_chars)

    def close(self) -> None:
        if self._reply is not None:
            self._reply.close()

    def _open(self) -> None:
        """Read until the first content, or the end where there is none."""
        attempt, relay = self.attempt, self._relay
        self._reply = reply = send(self._progress, attempt, abort_handle=self.abort)
        refuse_other_than_events(reply, attempt)
        self.accepted, self._accepted_at = reply, process.now()
        while not (relay.started or relay.ended):
            piece = reply.read_some()
            if piece:
                self.pieces.append(piece)
            relay.feed_bytes(piece or b"")
        attempt.first_token = process.now() if relay.started else None
