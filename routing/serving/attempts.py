"""Trying endpoints: which comes next, what it may cost, and what its failure means for the rest."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from gateway.http.errors import GatewayError
from gateway.live_settings import settings
from routing.catalogue.entries import EndpointEntry
from routing.exchange import WireRequest
from routing.metering.estimate import Room, estimate_nano, output_tokens_bound
from routing.metering.orders import HoldOrder, Refusal, ReleaseOrder, TopUpOrder
from routing.metering.writer import HOLD_WAIT_S, ledger
from routing.serving import process
from routing.serving.call import Attempt, Call, forget_origin
from routing.serving.errors import DeadlinePassed, ProviderError, payment_required
from routing.serving.observing import observed
from routing.serving.sharing import give_probe_back
from routing.serving.upstream_call import request_for
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure


class Attempts:
    """Walks a call's plan. Every endpoint it yields is covered by a hold."""

    def __init__(self, call: Call) -> None:
        self._call = call
        # The refusal of a hold, and how many attempts had been made before it.
        self._refused: tuple[Refusal, EndpointEntry, int] | None = None
        self._needs_context: dict[str, int] = {}
        self._finished_models: set[str] = set()
        self._request: WireRequest | None = None
        self._probes = call.plan.probe

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts to carry out, one after the other, until one is not reported as failed."""
        call = self._call
        for endpoint in call.plan.order:
            if not self._may_try(endpoint):
                continue
            if not self._within_budget():
                return
            if not self._held(endpoint):
                continue
            request, self._request = self._request or request_for(call, endpoint), None
            attempt = Attempt(endpoint, request, started=process.now())
            call.attempts.append(attempt)
            yield attempt

    def failed(self, attempt: Attempt, failure: UpstreamFailure) -> None:
        """Note a failed attempt for the record, the endpoint's health and what may follow."""
        now = process.now()
        failure.hide(attempt.endpoint.provider.credential)
        attempt.failure, attempt.status, attempt.ended = failure, failure.status, now
        forget_origin(failure)
        if failure.deadline and not self._had_its_share(attempt, now):
            failure.outage = False
        endpoint = attempt.endpoint
        if failure.parked:
            hint_s = failure.retry_after_s
            hint_s = RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
            process.health().parked(endpoint.pk, now, hint_s=hint_s)
        elif failure.outage:
            process.health().failed(endpoint.pk, now)
        observed(attempt, streamed=self._call.chat.stream)
        if endpoint.pk == self._probes:
            self.end_probe()
        if failure.larger_only:
            self._needs_context[endpoint.model_id] = endpoint.context_length or 0
        if not failure.elsewhere:
            self._finished_models.add(endpoint.model_id)

    def error(self) -> GatewayError:
        """What the caller is told when no endpoint is left."""
        call = self._call
        last = call.attempts[-1] if call.attempts else None
        if last is not None and last.failure is not None and last.failure.deadline:
            return DeadlinePassed()
        if self._refused is not None and self._refused[2] == len(call.attempts):
            return self._unaffordable(self._refused[0], self._refused[1])
        return ProviderError(call.attempts) if last is not None else DeadlinePassed()

    def _unaffordable(self, refusal: Refusal, endpoint: EndpointEntry) -> GatewayError:
        call = self._call
        assert endpoint.prices is not None
        prompt_only = call.demand._replace(output_tokens_asked=0)
        return payment_required(
            call,
            refusal,
            output_tokens=self._output_tokens(endpoint),
            prompt_nano=estimate_nano(prompt_only, _room(endpoint), endpoint.prices),
        )

    def another_model_left(self, attempt: Attempt) -> bool:
        """Whether the plan goes on to a model other than the attempt's."""
        order, model_id = self._call.plan.order, attempt.endpoint.model_id
        later = order[order.index(attempt.endpoint) + 1 :]
        return any(each.model_id != model_id and self._may_try(each) for each in later)

    def release(self) -> None:
        """Give hold and probe back without a record: nothing was sent upstream."""
        self.end_probe()
        if self._call.held_nano is not None:
            call = self._call
            ledger.submit(ReleaseOrder(call.generation_id, call.payer, call.held_nano))
            self._call.held_nano = None

    def end_probe(self) -> None:
        """Let others probe the endpoint that this call was to probe: it has, or never will. Told
        twice, it counts once."""
        endpoint, self._probes = self._probes, None
        if endpoint is not None:
            give_probe_back(endpoint)

    def _had_its_share(self, attempt: Attempt, now: float) -> bool:
        """Whether the attempt ran out of a time that was its own, not of what others had left it:
        it had its provider's, or half of the call's."""
        call, provider = self._call, attempt.endpoint.provider
        enough_s = [process.limits_of(provider).first_byte_s, (call.deadline - call.started) / 2]
        if provider.total_s:
            enough_s.append(provider.total_s)
        return now - attempt.started >= min(enough_s)

    def _may_try(self, endpoint: EndpointEntry) -> bool:
        if endpoint.model_id in self._finished_models:
            return False
        needed = self._needs_context.get(endpoint.model_id)
        return needed is None or (endpoint.context_length or 0) > needed

    def _within_budget(self) -> bool:
        attempts, now = self._call.attempts, process.now()
        if now >= self._call.deadline or len(attempts) >= settings.ROUTER_MAX_ATTEMPTS:
            return False
        if attempts:
            return process.retries().draw(now)
        process.retries().first(now)
        return True

    def _output_tokens(self, endpoint: EndpointEntry) -> int:
        cap = settings.ROUTER_ESTIMATE_OUTPUT_CAP
        return output_tokens_bound(self._call.demand, _room(endpoint), output_cap=cap)

    def _held(self, endpoint: EndpointEntry) -> bool:
        """Place or raise the hold for this endpoint; a dearer one that does not fit is skipped."""
        assert endpoint.prices is not None
        self._request = None
        needed_nano = estimate_nano(
            self._call.demand,
            _room(endpoint),
            endpoint.prices,
            output_cap=settings.ROUTER_ESTIMATE_OUTPUT_CAP,
        )
        held_nano = self._call.held_nano
        if held_nano is None:
            return self._place(endpoint, needed_nano)
        return needed_nano <= held_nano or self._raise(endpoint, needed_nano)

    def _place(self, endpoint: EndpointEntry, amount_nano: int) -> bool:
        call = self._call
        lease = timedelta(seconds=settings.HOLD_LEASE_SECONDS)
        order = HoldOrder(
            generation_id=call.generation_id,
            payer=call.payer,
            amount_nano=amount_nano,
            model=endpoint.model_id,
            created_at=call.created_at,
            lease_expires_at=call.created_at + lease,
        )
        return self._booked(order, endpoint, amount_nano)

    def _raise(self, endpoint: EndpointEntry, needed_nano: int) -> bool:
        call = self._call
        order = TopUpOrder(call.generation_id, call.payer, needed_nano - (call.held_nano or 0))
        return self._booked(order, endpoint, needed_nano)

    def _booked(self, order: HoldOrder | TopUpOrder, endpoint: EndpointEntry, nano: int) -> bool:
        ticket = ledger.submit(order)
        try:
            # While the database works: there is time for what would otherwise come after it.
            self._request = request_for(self._call, endpoint)
        finally:
            outcome: Any = ledger.wait(ticket, HOLD_WAIT_S)
        if outcome is True:
            self._call.held_nano = nano
            return True
        if isinstance(outcome, Refusal):
            made = len(self._call.attempts)
            if self._refused is None or self._refused[2] < made:
                self._refused = (outcome, endpoint, made)
            if not _cheaper_may_fit(outcome):
                self._finished_models.update(each.model_id for each in self._call.plan.order)
        return False


def _cheaper_may_fit(refusal: Refusal) -> bool:
    """Whether a smaller hold could have been placed; a broke account is told at once."""
    lefts = [refusal.balance_nano - refusal.held_nano] if settings.BILLING_ENFORCED else []
    if refusal.key_left_nano is not None:
        lefts.append(refusal.key_left_nano - refusal.key_held_nano)
    return min(lefts, default=0) > 0


def _room(endpoint: EndpointEntry) -> Room:
    return Room(endpoint.context_length, endpoint.max_completion_tokens)
