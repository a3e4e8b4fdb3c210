"""Trying endpoints: which comes next, what it may cost, and what its failure means for the rest."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from gateway.http.errors import GatewayError, Unavailable, forget_origin
from gateway.limits.rules import LimitsTaken
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import WireRequest
from routing.ledger.orders import HoldOrder, HoldRefusal, Outdated, ReleaseOrder, TopUpOrder
from routing.ledger.writer import HOLD_WAIT_S, ledger
from routing.metering.byok import charges_a_fee
from routing.selection.filters import LIMITS_STEP, PARKED_STEP
from routing.selection.types import Candidate
from routing.serving.admission import endpoint_limits, rate_limits
from routing.serving.admission.endpoint_limits import (
    Full,
    pass_over,
    settle_attempt,
    take_for_endpoint,
)
from routing.serving.attempts import own_credentials
from routing.serving.attempts.attempt_failures import (
    build_affordability_error,
    hide_quotes,
    log_failure,
    note_health,
)
from routing.serving.attempts.holds import (
    NeededHold,
    add_to_hold,
    estimate_attempt_nano,
    hold_for_estimate,
    may_smaller_hold_fit,
    missing_hold,
    rebook_with_current_limits,
    share_hold,
)
from routing.serving.attempts.house_credentials import (
    AllParked,
    ChosenCredential,
    is_pool_failure,
    is_unusable_credential,
    note_credential_failure,
    take_credential,
)
from routing.serving.attempts.own_credentials import find_entry, open_key
from routing.serving.attempts.upstream_call import build_upstream_request, find_first_byte_limit
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import CredentialsParked, DeadlinePassed, ProviderError
from routing.serving.request.legs import bound_charges
from routing.statistics.parked_credentials import parked_credentials
from routing.statistics.peer_sync import release_probe
from routing.upstreams.failures import UpstreamFailure, is_transient

# So many refusals of credentials that differ say that it is the request.
DOUBTS_MAX = 2


class Attempts:
    """Walks a call's plan. Every endpoint it yields is covered by a hold."""

    # How many turns were gone through, and whether no further attempt may be made. Also whether
    # only the team's own are affordable, and whether the key of one of these could not be opened.
    _turned = 0
    _own_only = _unopened = _is_over = False
    # Whether the endpoint that failed last is asked again in other words.
    _is_asked_again = False
    # The refusal of a hold, and how many attempts had been made before it.
    _refused: tuple[HoldRefusal, EndpointEntry, int] | None = None
    _request: WireRequest | None = None
    # Of the endpoints that had no room, what will have some first.
    _full: Full | None = None
    # Of the endpoints whose credentials are all parked, when the first may be asked again.
    _parked: AllParked | None = None
    # The key to send, where not the provider's only one, while its request is written.
    _key: str | None = None

    def __init__(self, progress: RequestProgress, turns: Sequence[Candidate] | None = None) -> None:
        """`turns` are those of a later turn of a loop, instead of the plan's."""
        self._progress = progress
        self._first = len(progress.attempts)
        self._turns = progress.context.plan.candidates if turns is None else turns
        # Places count these, whatever becomes of the team's credentials meanwhile.
        self._entries = progress.context.caller.byok
        self._needs_context: dict[str, int] = {}
        self._finished_models: set[str] = set()
        self._probes = progress.context.plan.probe if turns is None else None
        # Of the round that is under way.
        self._failed_turns: list[tuple[Candidate, UpstreamFailure]] = []
        # Of the turn: the pooled credentials it was tried with, by key.
        self._tried: set[int] = set()

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts to carry out, one after the other, until one is not reported as failed. When no
        endpoint is left, those that failed for a moment are asked again, after a while."""
        plan = self._progress.context.plan
        yield from self._try_turns()
        if self._parked is not None and len(self._progress.attempts) == self._first:
            # Parked ones are better than none: they belong to the plan again.
            self._progress.context = self._progress.context._replace(plan=plan)
            yield from self._try_turns(is_again=True, is_last_resort=True)
        for number in range(settings.ROUTER_ENDPOINT_RETRIES):
            delay_s = self._find_retry_delay_s(number)
            if delay_s is None:
                return
            time.sleep(delay_s)
            yield from self._try_turns(is_again=True)

    def _try_turns(
        self, *, is_again: bool = False, is_last_resort: bool = False
    ) -> Iterator[Attempt]:
        self._turned, self._failed_turns = 0, []
        for turn in self._turns:
            self._turned += 1
            self._tried = set()
            failure: UpstreamFailure | None = None
            doubts = 0
            while (
                attempt := self._prepare_attempt(
                    turn, is_again=is_again, is_last_resort=is_last_resort
                )
            ) is not None:
                self._progress.attempts.append(attempt)
                yield attempt
                failure = attempt.failure
                is_again_asked, self._is_asked_again = self._is_asked_again, False
                # Of a pool another credential may do better.
                if failure is None or not (is_again_asked or is_pool_failure(attempt, failure)):
                    break
                doubts += failure.credential and not is_unusable_credential(failure)
                if doubts == DOUBTS_MAX:
                    break
            if failure is not None:
                self._failed_turns.append((turn, failure))
            if self._is_over:
                return

    def _prepare_attempt(
        self, turn: Candidate, *, is_again: bool, is_last_resort: bool
    ) -> Attempt | None:
        """The next attempt of this turn, covered by a hold; None where there is none."""
        progress, endpoint = self._progress, turn.endpoint
        self._key = None
        if not self._may_try(turn):
            return None
        own = None if turn.own is None else find_entry(turn, self._entries)
        if own is not None:
            self._key = open_key(own)
            if self._key is None:
                self._unopened = True
                return None
        taken: LimitsTaken | ChosenCredential | Full | AllParked | None = None
        if own is None and endpoint.provider.credentials:
            taken = take_credential(
                progress,
                endpoint,
                self._tried,
                even_throttled=is_again,
                is_last_resort=is_last_resort,
                in_turn=self._waits_in_turn(),
            )
        elif endpoint.rate_rules or progress.context.caller.rate_rules:
            taken = take_for_endpoint(progress, endpoint, in_turn=self._waits_in_turn())
        if isinstance(taken, Full | AllParked):
            self._pass_over(endpoint, taken)
            return None
        house, limits = taken if isinstance(taken, ChosenCredential) else (None, taken)
        if house is not None:
            self._key = house.secret
            self._tried.add(house.pk)
        attempt, has_others = None, self._turned < len(self._turns)
        first_byte = find_first_byte_limit(progress, endpoint, has_others=has_others)
        try:
            self._is_over = not self._may_attempt()
            if not self._is_over and self._ensure_hold(endpoint, is_own=own is not None):
                request, self._request = self._request or self._write_request(endpoint), None
                now = process.now()
                attempt = Attempt(endpoint, request, now, own=own, limits=limits, house=house)
                attempt.first_byte = first_byte
        finally:
            self._key = None
            if limits is not None and attempt is None:
                endpoint_limits.give_back(limits)
        return attempt

    def _waits_in_turn(self) -> bool:
        """Whether it leaves free places to those that wait for one. A request that never waits
        would never have a turn, where others always do."""
        return False

    def _pass_over(self, endpoint: EndpointEntry, cause: Full | AllParked) -> None:
        """Leave out an endpoint that cannot be asked for now."""
        if isinstance(cause, AllParked):
            if self._parked is None or cause.until < self._parked.until:
                self._parked = cause
        elif self._full is None or cause.wait_s < self._full.wait_s:
            self._full = cause
        if endpoint.pk == self._probes:
            self.end_probe()
        # What was tried shows in its failure.
        if not any(each.endpoint is endpoint for each in self._progress.attempts):
            step = PARKED_STEP if isinstance(cause, AllParked) else LIMITS_STEP
            pass_over(self._progress, endpoint, step)

    def _find_retry_delay_s(self, number: int) -> float | None:
        """Keep the turns that may do better in a moment, and find how long to wait. None where
        there are none, or no time is left. `number` counts the rounds of retries."""
        again = [
            (turn, failure)
            for turn, failure in self._failed_turns
            if is_transient(failure) and self._may_try(turn)
        ]
        if not again:
            return None
        self._turns = [turn for turn, _ in again]
        hint_s = min(failure.retry_after_s or 0.0 for _, failure in again)
        backoff_s = settings.ROUTER_RETRY_BACKOFF * 2**number * (0.5 + process.chance())
        delay_s = max(hint_s, backoff_s)
        return delay_s if process.now() + delay_s < self._progress.context.deadline else None

    def record_failure(self, attempt: Attempt, failure: UpstreamFailure) -> None:
        """Note a failed attempt for the record, the endpoint's health and what may follow."""
        now = process.now()
        hide_quotes(self._progress, attempt, failure)
        attempt.failure, attempt.status, attempt.ended = failure, failure.status, now
        forget_origin(failure)
        if attempt.limits is not None and attempt.first_token is None:
            settle_attempt(attempt, 0)
        account_id = self._progress.context.payer.account_id
        if not note_credential_failure(attempt, failure, account_id, now):
            note_health(self._progress, attempt, failure, now)
            if attempt.endpoint.pk == self._probes:
                self.end_probe()
        rescue = self._progress.rescue
        if rescue is not None and rescue.note_refusal(attempt, failure):
            failure.elsewhere, self._is_asked_again = True, True
            if attempt.house is not None:
                # Nothing is wrong with it, and there may be no other.
                self._tried.discard(attempt.house.pk)
        log_failure(self._progress, attempt, failure, now)
        if failure.larger_only:
            self._needs_context[attempt.endpoint.model_id] = attempt.endpoint.context_length or 0
        if not failure.elsewhere:
            self._finished_models.add(attempt.endpoint.model_id)

    def error(self) -> GatewayError:
        """The caller's error when no endpoint is left."""
        progress = self._progress
        last = progress.last_attempt if len(progress.attempts) > self._first else None
        if last is not None and last.failure is not None and last.failure.deadline:
            return DeadlinePassed()
        if progress.rescue and progress.rescue.legs and process.now() >= progress.context.deadline:
            # The time ended what had begun, not the upstream: others could have gone on with it.
            return DeadlinePassed()
        if self._refused is not None and self._refused[2] == len(progress.attempts):
            return build_affordability_error(progress, self._refused[0], self._refused[1])
        if last is None and self._full is not None:
            return rate_limits.refuse_full(progress, self._full)
        if last is None and self._parked is not None:
            return CredentialsParked(self._parked.until - process.now())
        if last is None and self._unopened:
            return Unavailable("No credential for this model can be used")
        return ProviderError(progress.attempts) if last is not None else DeadlinePassed()

    @property
    def is_unaffordable(self) -> bool:
        """Whether nothing was tried because the hold for it was refused."""
        return self._refused is not None and len(self._progress.attempts) == self._first

    def has_another_model(self, attempt: Attempt) -> bool:
        """Whether the plan goes on to a model other than the attempt's."""
        model_id, later = attempt.endpoint.model_id, self._turns[self._turned :]
        return any(turn.endpoint.model_id != model_id and self._may_try(turn) for turn in later)

    def release(self) -> None:
        """Give hold and probe back without a record: nothing was sent upstream."""
        self.end_probe()
        rate_limits.give_back(self._progress)
        if self._progress.held_nano is not None and self._progress.parent is None:
            progress = self._progress
            ledger.submit(
                ReleaseOrder(
                    progress.context.generation_id,
                    progress.context.payer,
                    progress.held_nano,
                    progress.held_byok_nano,
                )
            )
            progress.held_nano = None

    def end_probe(self) -> None:
        """Let others probe the endpoint that this call was to probe: it has, or never will. Told
        twice, it counts once."""
        endpoint, self._probes = self._probes, None
        if endpoint is not None:
            release_probe(endpoint)

    def _write_request(self, endpoint: EndpointEntry) -> WireRequest | None:
        return build_upstream_request(self._progress, endpoint, own_key=self._key)

    def _may_try(self, turn: Candidate) -> bool:
        endpoint = turn.endpoint
        if endpoint.model_id in self._finished_models:
            return False
        if self._own_only and (turn.own is None or charges_a_fee()):
            return False
        needed = self._needs_context.get(endpoint.model_id)
        return needed is None or (endpoint.context_length or 0) > needed

    def _may_attempt(self) -> bool:
        attempts, now = len(self._progress.attempts) - self._first, process.now()
        if now >= self._progress.context.deadline or attempts >= settings.ROUTER_MAX_ATTEMPTS:
            return False
        account_id = self._progress.context.payer.account_id
        if attempts:
            return process.retries().draw(account_id, now)
        process.retries().first(account_id, now)
        return True

    def _ensure_hold(self, endpoint: EndpointEntry, *, is_own: bool) -> bool:
        """Place or raise the hold for this endpoint; a dearer one that does not fit is skipped."""
        self._request = None
        needed = self._needed_hold(estimate_attempt_nano(self._progress, endpoint), is_own=is_own)
        if self._progress.loop is not None:
            needed = share_hold(self._progress, needed)
        root = self._progress.root
        if legs := self._progress.legs:
            shared_nano, own_nano = bound_charges(legs)
            needed = NeededHold(needed.amount_nano + shared_nano, needed.byok_nano + own_nano)
        if root.held_nano is None:
            progress = self._progress
            progress.hold_asked = process.now()
            lease = timedelta(seconds=settings.HOLD_LEASE_SECONDS)
            order = HoldOrder(
                generation_id=progress.context.generation_id,
                payer=progress.context.payer,
                amount_nano=needed.amount_nano,
                model=endpoint.model_id,
                created_at=progress.context.created_at,
                lease_expires_at=progress.context.created_at + lease,
                byok_nano=needed.byok_nano,
            )
            return self._book_hold(order, endpoint)
        more = missing_hold(needed, NeededHold(root.held_nano, root.held_byok_nano))
        if more is None:
            return True
        raising = TopUpOrder(root.context.generation_id, root.context.payer, *more)
        # At once, so that others on the same hold do not ask for it as well.
        add_to_hold(root, raising)
        is_held = False
        try:
            is_held = self._book_hold(raising, endpoint)
        finally:
            if not is_held:
                add_to_hold(root, raising, sign=-1)
        return is_held

    def _needed_hold(self, estimated_nano: int, *, is_own: bool) -> NeededHold:
        return hold_for_estimate(estimated_nano, is_own=is_own)

    def _book_hold(self, order: HoldOrder | TopUpOrder, endpoint: EndpointEntry) -> bool:
        ticket = ledger.submit(order)
        try:
            # While the database works: there is time for what would otherwise come after it.
            self._request = self._write_request(endpoint)
        finally:
            outcome: Any = ledger.wait(ticket, HOLD_WAIT_S)
        progress = self._progress
        if isinstance(outcome, Outdated):
            outcome = rebook_with_current_limits(progress, order)
        if outcome is True:
            if isinstance(order, HoldOrder):
                add_to_hold(progress, order)
            return True
        if isinstance(outcome, HoldRefusal):
            attempts = len(progress.attempts)
            if self._refused is None or self._refused[2] < attempts:
                self._refused = (outcome, endpoint, attempts)
            if not may_smaller_hold_fit(outcome):
                self._own_only = True
        return False


def record_success(attempt: Attempt) -> None:
    """An answer: what had been wrong with whatever it was asked with is over."""
    if attempt.house is not None:
        parked_credentials().clear(attempt.house, attempt.endpoint.pk, process.now())
    if attempt.own is None:
        process.health().record_success(attempt.endpoint.pk, process.now())
    elif own_credentials.resting_credentials():
        own_credentials.resting_credentials().remove(attempt.own, attempt.endpoint.pk)
