"""Hedged requests: where an endpoint gives no content for a while, another one is asked beside it.

The first content wins, the other call is cancelled and its connection closed. Both take part only
where that ends their bill (`supports_cancellation`), and both serve the same model. In the place of
one that fails the next is asked. A request has one race.
"""

import math
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from gevent import Greenlet, joinall, spawn
from gevent.event import Event

from gateway.database.db import under_gevent
from gateway.http.errors import GatewayError, forget_origin
from gateway.live_settings import settings
from gateway.outbound.errors import Aborted, OutboundError
from gateway.outbound.exchange import AbortHandle
from routing.entities.entries import EndpointEntry
from routing.metering.usage import Usage
from routing.selection.types import Candidate
from routing.serving.admission.endpoint_limits import (
    Full,
    give_back,
    settle_attempt,
)
from routing.serving.attempts.attempts import DOUBTS_MAX, Attempts
from routing.serving.attempts.holds import (
    NeededHold,
    estimate_attempt_nano,
    hold_for_estimate,
)
from routing.serving.attempts.house_credentials import (
    AllParked,
    is_pool_failure,
    is_unusable_credential,
)
from routing.serving.attempts.queue_wait import QueueingAttempts
from routing.serving.attempts.upstream_call import find_hedge_delay_s, find_usual_s
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.legs import Hedge, Leg
from routing.serving.request.outcome import note_house_cost, price
from routing.statistics.observation import observer, record_cancelled
from routing.upstreams.failures import UpstreamFailure, cancelled_attempt, from_outbound_error

# A connection that is cut is noticed at once, one that is being opened within 0.2 s.
_END_S = 1.0


def may_hedge(progress: RequestProgress) -> bool:
    """Whether a second endpoint may be asked at all. The turns of a tool loop are not hedged: what
    the gateway's tools do for one answer would be done for two. What endpoints are sent is shown of
    one after the other."""
    return (
        progress.context.wants_hedge
        and not progress.context.chat.echo_upstream_body
        and progress.loop is None
        and progress.parent is None
        and under_gevent()
    )


def build_attempts(progress: RequestProgress) -> Attempts:
    """The attempts of a request's first turn."""
    if may_hedge(progress):
        return HedgingAttempts(progress)
    return QueueingAttempts(progress) if settings.ROUTER_QUEUE_SECONDS else Attempts(progress)


class HedgingAttempts(QueueingAttempts):
    """See `Attempts`. It also prepares those that are asked beside another."""

    # The attempt that another one is being prepared beside, and the turn of that.
    _beside: Attempt | None = None
    _prepared: Candidate | None = None

    def __init__(self, progress: RequestProgress) -> None:
        super().__init__(progress)
        # Those that were asked so before it was their turn.
        self._raced: list[tuple[Candidate, Attempt]] = []

    def may_race(self, attempt: Attempt) -> bool:
        """Whether another endpoint can be asked beside this one."""
        return (
            self._progress.hedge is None
            and attempt.endpoint.supports_cancellation
            and any(self._fits(turn, attempt) for turn in self._turns[self._turned :])
        )

    def prepare_hedge(self, first: Attempt) -> Attempt | None:
        """An attempt to make beside the first, covered by the hold with it; None where there is
        none. It is not part of the request before `add_hedge`."""
        former = (self._tried, self._refused, self._own_only, self._unopened)
        self._beside = first
        try:
            for turn in self._turns[self._turned :]:
                if not self._fits(turn, first):
                    continue
                self._tried = set()
                second = self._prepare_attempt(turn, is_again=False, is_last_resort=False)
                if second is not None:
                    self._prepared = turn
                    return second
                if self._is_over or self._refused is not former[1]:
                    return None
            return None
        finally:
            # What kept it from being asked may have passed when it is its turn.
            self._tried, self._refused, self._own_only, self._unopened = former
            self._beside, self._is_over = None, False

    def add_hedge(self, second: Attempt) -> None:
        """Make what was prepared an attempt of the request."""
        assert self._prepared is not None
        self._raced.append((self._prepared, second))
        self._progress.attempts.append(second)

    def drop_hedge(self, second: Attempt) -> None:
        """As if it had not been prepared: the first one has ended meanwhile."""
        if second.limits is not None:
            give_back(second.limits)

    def record_failure(self, attempt: Attempt, failure: UpstreamFailure) -> None:
        super().record_failure(attempt, failure)
        turn = next((turn for turn, each in self._raced if each is attempt), None)
        if turn is not None:
            refusals = [
                each.failure
                for each in self._progress.attempts
                if each.endpoint is attempt.endpoint and each.failure and each.failure.credential
            ]
            doubts = sum(not is_unusable_credential(each) for each in refusals)
            if is_pool_failure(attempt, failure) and doubts < DOUBTS_MAX:
                # Another one of the endpoint's pool may do better.
                self._raced = [each for each in self._raced if each[1] is not attempt]
            else:
                self._failed_turns.append((turn, failure))
        # The race is over, and nothing was wrong with who was cancelled for this one.
        self._raced = [each for each in self._raced if not each[1].is_cancelled]

    def end_probe_of(self, attempt: Attempt) -> None:
        """Let others probe the endpoint, if it is the one that was to be probed."""
        if attempt.endpoint.pk == self._probes:
            self.end_probe()

    def _fits(self, turn: Candidate, first: Attempt) -> bool:
        endpoint = turn.endpoint
        return (
            endpoint.pk != first.endpoint.pk
            and endpoint.model_id == first.endpoint.model_id
            and endpoint.supports_cancellation
            and self._may_try(turn)
        )

    def _may_try(self, turn: Candidate) -> bool:
        return all(turn is not each for each, _ in self._raced) and super()._may_try(turn)

    def _find_retry_delay_s(self, number: int) -> float | None:
        self._raced = []
        return super()._find_retry_delay_s(number)

    def _waits_in_turn(self) -> bool:
        # Nobody gives way to what is only asked beside another.
        return self._beside is not None or super()._waits_in_turn()

    def _pass_over(self, endpoint: EndpointEntry, cause: Full | AllParked) -> None:
        if self._beside is None:
            super()._pass_over(endpoint, cause)

    def _needed_hold(self, estimated_nano: int, *, is_own: bool) -> NeededHold:
        needed, beside = super()._needed_hold(estimated_nano, is_own=is_own), self._beside
        if beside is None:
            return needed
        other = hold_for_estimate(
            estimate_attempt_nano(self._progress, beside.endpoint), is_own=beside.own is not None
        )
        return NeededHold(
            needed.amount_nano + other.amount_nano, needed.byok_nano + other.byok_nano
        )


class RacingCall(Protocol):
    """One attempt of a race on the wire."""

    attempt: Attempt
    abort: AbortHandle

    def run(self) -> None:
        """Wait for content. Raises `UpstreamFailure` or `OutboundError`."""

    @property
    def is_silent(self) -> bool:
        """Whether not even the head of a reply has come."""

    def find_failure(self) -> UpstreamFailure | None:
        """What is wrong with what came, where another endpoint may do better."""

    def measure_bill(self) -> Usage | None:
        """What the provider bills if the call ends now; None for nothing."""

    def close(self) -> None:
        """Let go what `run` has left open."""


C = TypeVar("C", bound=RacingCall)


class Race(Generic[C]):
    """One attempt, and after a while another one beside it, until there is content or nobody is
    left. Then `winner` is the call that has it, or `failure` is that of `attempt`, the last one,
    which nobody has recorded yet."""

    def __init__(
        self,
        progress: RequestProgress,
        attempts: HedgingAttempts,
        first: Attempt,
        build_call: Callable[[Attempt], C],
    ) -> None:
        self.attempt = first
        self.winner: C | None = None
        self.failure: UpstreamFailure | None = None
        self._progress = progress
        self._attempts = attempts
        self._build_call = build_call
        # Each with its greenlet, whose value is what `run` raised.
        self._running: list[tuple[C, Greenlet]] = []
        self._changed = Event()
        self._delay_s = find_hedge_delay_s(progress, first.endpoint)
        self._hedge_at = process.now() + self._delay_s
        self._is_aborted = False
        self._start(first)

    @property
    def calls(self) -> list[C]:
        """Those under way."""
        return [call for call, _ in self._running]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is decided within that time; None waits until it is."""
        until = math.inf if timeout_s is None else process.now() + timeout_s
        while True:
            self._changed.clear()
            if self._collect():
                return True
            now = process.now()
            if now >= self._hedge_at:
                self._hedge_at = math.inf
                self._ask_second()
            elif now >= until:
                return False
            else:
                due_s = min(until, self._hedge_at) - now
                self._changed.wait(None if due_s == math.inf else due_s)

    def abort(self) -> None:
        """End all calls: the caller has left. From the event loop too."""
        self._is_aborted, self._hedge_at = True, math.inf
        for call, _ in self._running:
            call.abort.abort()

    def leave(self) -> C | None:
        """The call of a race whose caller has left that is to be booked like any call that is left,
        once all have ended. The other one is booked as cancelled."""
        self.abort()
        joinall([job for _, job in self._running], timeout=_END_S)
        if self.winner is not None or not self._running:
            return self.winner
        kept, _ = self._running.pop(0)
        self.cancel_all()
        return kept

    def cancel_all(self) -> None:
        """Cancel whatever is still under way."""
        running, self._running = self._running, []
        for call, job in running:
            self._cancel(call, job)

    def _start(self, attempt: Attempt) -> None:
        call = self._build_call(attempt)
        job = spawn(_run_call, call)
        job.link(lambda _: self._changed.set())
        self._running.append((call, job))

    def _ask_second(self) -> None:
        [(first, job)] = self._running
        try:
            second = self._attempts.prepare_hedge(first.attempt)
        except GatewayError as error:
            # The first one may answer all the same.
            forget_origin(error)
            return
        if second is None:
            return
        if job.ready() or self._is_aborted:
            self._attempts.drop_hedge(second)
            return
        self._attempts.add_hedge(second)
        if self._progress.hedge is None:
            self._progress.hedge = Hedge(self._delay_s, [first.attempt])
        self._progress.hedge.racing.append(second)
        self._start(second)

    def _collect(self) -> bool:
        """Look at the calls that have ended. Whether it is decided."""
        if self._is_aborted:
            return all(job.ready() for _, job in self._running)
        for call, job in [each for each in self._running if each[1].ready()]:
            # Raises what only a bug raises.
            error = job.get()
            self._running.remove((call, job))
            assert not isinstance(error, Aborted)
            self.attempt = call.attempt
            failure = error or (call.find_failure() if self._running else None)
            if failure is None:
                self.winner = call
                if self._progress.hedge is not None:
                    self._progress.hedge.winner = call.attempt
                self.cancel_all()
                return True
            if self._running:
                self._attempts.record_failure(call.attempt, failure)
                # Somebody else in its place.
                self._hedge_at = process.now()
            else:
                self.failure = failure
        return not self._running

    def _cancel(self, call: C, job: Any) -> None:
        """Close the connection, and note what the provider bills until now."""
        attempt, progress, hedge = call.attempt, self._progress, self._progress.hedge
        has_ended = job.ready()
        usage, is_silent = call.measure_bill(), call.is_silent
        call.abort.abort()
        if has_ended:
            call.close()
        if has_ended and isinstance(job.value, UpstreamFailure):
            self._attempts.record_failure(attempt, job.value)
            return
        if hedge is None:
            # It is alone, and ends as the request does.
            return
        attempt.ended = process.now()
        usual_s = find_usual_s(progress, attempt.endpoint)
        record_cancelled(attempt, streamed=progress.context.chat.stream, usual_s=usual_s)
        if is_silent and attempt.ended - attempt.started >= usual_s:
            usage = _judge_silence(attempt, usage)
        self._attempts.end_probe_of(attempt)
        attempt.failure = failure = cancelled_attempt()
        attempt.status, tokens = failure.status, 0
        if usage is not None:
            note_house_cost(progress, attempt, usage)
            hedge.legs.append(Leg(attempt, usage, price(progress, attempt, usage)))
            tokens = usage.total_tokens
        settle_attempt(attempt, tokens)


def _judge_silence(attempt: Attempt, usage: Usage | None) -> Usage | None:
    """What the provider bills of a call that brought not one byte in the usual time. Where most of
    the endpoint's last tries brought nothing it hangs: that is an outage, and nothing is billed."""
    health, endpoint, now = process.health(), attempt.endpoint.pk, process.now()
    health.record_useless_answer(endpoint, now)
    if endpoint not in health.snapshot(now).failing:
        return usage
    health.record_failure(endpoint, now)
    observer().health_events.record_outage(endpoint, now)
    return None


def _run_call(call: RacingCall) -> UpstreamFailure | Aborted | None:
    """gevent prints what a greenlet raises; so errors come back as values."""
    try:
        call.run()
    except (Aborted, UpstreamFailure) as error:
        return error
    except OutboundError as error:
        forget_origin(error)
        return from_outbound_error(error)
    return None
