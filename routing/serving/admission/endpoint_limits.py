"""Limits that are taken as an endpoint is about to be asked. These are its own, and those of key
and workspace that name its model or provider. An endpoint without room is passed over."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.http.errors import GatewayError, InvalidRequest, RateLimited
from gateway.limits.allowances import NOTHING, Allowance, RuleSet
from gateway.limits.concurrency import Bound, concurrency_limiter
from gateway.limits.fair_queue import fair_queue
from gateway.limits.limits import Exceeded, Limit, WindowsTaken, build_refusal, rate_limiter
from gateway.limits.rules import (
    BURST,
    DAY,
    REQUESTS,
    TOKENS,
    LimitsTaken,
    Marks,
    RateRule,
    describe_counter,
)
from gateway.limits.weights import ModelUse
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.entities.identity_cache import IdentityCache
from routing.metering.usage import Room, Usage, output_tokens_bound, prompt_tokens_bound
from routing.selection.filters import LIMITS_STEP
from routing.selection.types import Excluded
from routing.serving.request.context import Attempt, RequestProgress

SOURCE: Final = "router_rate_limit"
KEY_TOKENS: Final = "key_tokens"
_COUNTS_CALLS: Final = (REQUESTS, DAY, BURST)
_OF_CREDENTIAL: Final = f"{TOKENS}:credential:"
# Of one request at one endpoint.
CALLS_AT_ONCE: Final = 8
# Of keys, endpoints and credentials whose rules were looked at last.
_SETS_MAX: Final = 1024
# A place may become free at any moment.
_PLACE_RETRY_S: Final = 1
_WORDS: Final = {
    REQUESTS: "requests per minute",
    DAY: "requests per day",
    TOKENS: "tokens per minute",
}


# Rules of a caller that count whole requests, those that count what some endpoints are asked, and
# those of an endpoint or a credential. Equal rules are one object (`share_rules`).
find_request_rules: IdentityCache[tuple[RateRule, ...], RuleSet] = IdentityCache(
    lambda rules: RuleSet([rule for rule in rules if not rule.names_endpoints]), size_max=_SETS_MAX
)
_find_endpoint_rules: IdentityCache[tuple[RateRule, ...], RuleSet] = IdentityCache(
    lambda rules: RuleSet([rule for rule in rules if rule.names_endpoints]), size_max=_SETS_MAX
)
_find_shared_rules: IdentityCache[tuple[RateRule, ...], RuleSet] = IdentityCache(
    RuleSet, size_max=_SETS_MAX
)


class Full(NamedTuple):
    """The window or bound that has no room."""

    cause: Exceeded | Bound

    @property
    def is_for_good(self) -> bool:
        """Whether the request takes more than the whole limit."""
        return isinstance(self.cause, Exceeded) and self.cause.limit.cost > self.cause.limit.most

    @property
    def wait_s(self) -> float:
        if isinstance(self.cause, Bound):
            return _PLACE_RETRY_S
        if self.is_for_good:
            return math.inf
        return max(1, math.ceil(self.cause.reset_s - self.cause.at_s))


def take_limits(
    windows: Sequence[Limit], bounds: Sequence[Bound], *, calls: int = 1
) -> LimitsTaken | Full:
    """Take of all of them or of none. A request of several calls has at least one place of each
    bound. It has further ones while any are free, for as many calls as may be under way."""
    places = concurrency_limiter().take(bounds) if bounds else []
    if isinstance(places, Bound):
        return Full(places)
    taken: WindowsTaken | Exceeded | None = None
    try:
        taken = rate_limiter().take(*windows) if windows else None
        is_full = isinstance(taken, Exceeded)
        while not is_full and len(places) < len(bounds) * min(calls, CALLS_AT_ONCE):
            more = concurrency_limiter().take(bounds)
            is_full = isinstance(more, Bound)
            places += [] if isinstance(more, Bound) else more
    except BaseException:  # Also a greenlet being killed must leave nothing taken.
        concurrency_limiter().give_back(places)
        if isinstance(taken, WindowsTaken):
            rate_limiter().give_back(taken)
        raise
    if isinstance(taken, Exceeded):
        concurrency_limiter().give_back(places)
        return Full(taken)
    return LimitsTaken(taken, places)


def take_for_endpoint(
    progress: RequestProgress,
    endpoint: EndpointEntry,
    more_rules: tuple[RateRule, ...] = (),
    *,
    in_turn: bool = False,
) -> LimitsTaken | Full | None:
    """What asking this endpoint takes; None where nothing limits it. `more_rules` are those of the
    credential that it is asked with. A later turn of a loop goes on with what an earlier one took
    there. That does not hold for the rules of a credential that is asked with for the first time.
    With `in_turn` nothing is taken where it is the turn of others that wait."""
    if not (more_rules or endpoint.rate_rules or progress.context.caller.rate_rules):
        return None
    marks, earlier = read_marks(progress), list[Attempt]()
    if progress.loop is not None:
        earlier = [
            each
            for each in progress.attempts
            if each.endpoint is endpoint and each.limits is not None
        ]
    allowances = []
    if not earlier:
        if endpoint.rate_rules:
            allowances.append(_find_shared_rules(endpoint.rate_rules).allow(marks))
        allowances.append(allow_endpoint(progress, endpoint, marks))
    # Rules name the credential that they are of.
    if more_rules and not any(
        each.house is not None and each.house.rate_rules == more_rules for each in earlier
    ):
        allowances.append(_find_shared_rules(more_rules).allow(marks))
    allowances = [each for each in allowances if each.windows or each.bounds]
    if not allowances:
        return None
    calls = len(progress.demands(endpoint))
    tokens, windows, bounds = 0, list[Limit](), list[Bound]()
    if any(each.token_windows for each in allowances):
        tokens = bound_tokens(progress, endpoint)
    weighed = [each for each in allowances if each.weights]
    use = ModelUse(endpoint.model_id, endpoint.canonical_slug, tokens)
    for each in allowances:
        windows += each.list_limits(tokens, calls, [use] if weighed else ())
        bounds += each.bounds
    # Calls of a hedged request are under way at the same time, so that each takes a place.
    if bounds and (progress.loop is not None or progress.parent is not None):
        held = set(_list_own_places(progress))
        bounds = [bound for bound in bounds if bound.scope not in held]
    if in_turn and (overtaken := fair_queue().find_overtaken(bounds, progress.waiting)):
        return Full(overtaken)
    taken = take_limits(windows, bounds, calls=calls)
    if weighed and isinstance(taken, LimitsTaken):
        weights = {
            each.windows[number].scope: use.weigh(weights)
            for each in weighed
            for number, weights in each.weights
        }
        taken = taken._replace(weights=weights)
    return taken


def _list_own_places(progress: RequestProgress) -> Iterator[str]:
    """The scopes in which it, or one whose tool sends it, is under way already."""
    asking: RequestProgress | None = progress
    while asking is not None:
        for attempt in asking.attempts:
            if attempt.limits is not None:
                yield from (place.scope for place in attempt.limits.places)
        asking = asking.parent


def read_marks(progress: RequestProgress) -> Marks:
    """The end user and the tags by which rules tell requests apart. What a tool asks of a model is
    for the user of the request that called it."""
    if progress.marks is None:
        progress.marks = Marks(progress.root.context.chat.user, progress.context.tags)
    return progress.marks


def allow_endpoint(progress: RequestProgress, endpoint: EndpointEntry, marks: Marks) -> Allowance:
    """What rules of key and workspace let it take that count what this endpoint is asked."""
    rules = progress.context.caller.rate_rules
    if not rules:
        return NOTHING
    found = _find_endpoint_rules(rules)
    return found.allow(marks, endpoint.canonical_slug, endpoint.provider.slug)


def pass_over(progress: RequestProgress, endpoint: EndpointEntry, step: str = LIMITS_STEP) -> None:
    """Note in the plan that the endpoint was not asked, and why: the trace is written from it."""
    plan = progress.context.plan
    plan = plan._replace(
        order=[each for each in plan.order if each is not endpoint],
        own_candidates=[each for each in plan.own_candidates if each.endpoint is not endpoint],
        removed=[*plan.removed, Excluded(endpoint, step)],
    )
    progress.context = progress.context._replace(plan=plan)


def note_tokens(progress: RequestProgress, usage: Usage) -> None:
    """Note what nobody has noted yet of the attempt that answered."""
    noted = sum(leg.usage.total_tokens for leg in progress.legs)
    noted += sum(each.tokens_used for each in progress.attempts)
    if (last := progress.last_attempt) is not None:
        last.tokens_used += max(0, usage.total_tokens - noted)


def settle_attempts(progress: RequestProgress, usage: Usage) -> None:
    """Correct what attempts reserved to what each used, and end their places. Other legs are
    settled."""
    attempts = progress.attempts
    note_tokens(progress, usage)
    if len(attempts) == 1:
        settle_attempt(attempts[0], attempts[0].tokens_used)
        return
    for attempt in attempts:
        # Later turns of a loop go on with what an earlier one took at their endpoint.
        turns = [attempt]
        if progress.loop is not None:
            turns = [each for each in attempts if each.endpoint is attempt.endpoint]
        settle_attempt(
            attempt,
            sum(each.tokens_used for each in turns),
            credential_tokens=sum(
                each.tokens_used for each in turns if each.house is attempt.house
            ),
        )


def settle_attempt(attempt: Attempt, tokens: int, *, credential_tokens: int | None = None) -> None:
    """Correct what an attempt reserved to the calls that it sent and the tokens that were used at
    its endpoint. `credential_tokens` are those that were used with its credential, where not all
    were. Ends its places."""
    limits, attempt.limits = attempt.limits, None
    if limits is not None:
        if limits.places:
            concurrency_limiter().give_back(limits.places)
        if limits.windows is not None:
            correct_windows(
                limits.windows,
                tokens,
                credential_tokens,
                calls=attempt.calls_sent,
                weights=limits.weights,
            )


def end_attempt_places(progress: RequestProgress) -> None:
    """End the places at endpoints: none is asked any more."""
    for attempt in progress.attempts:
        if attempt.limits is not None:
            concurrency_limiter().give_back(attempt.limits.places)


def give_back(limits: LimitsTaken) -> None:
    """As if it had not been taken."""
    concurrency_limiter().give_back(limits.places)
    if limits.windows is not None:
        rate_limiter().give_back(limits.windows)


def correct_windows(
    taken: WindowsTaken,
    tokens: int,
    credential_tokens: int | None = None,
    *,
    calls: int = 1,
    weights: Mapping[str, int] = {},
    weighed: Mapping[str, int] = {},
) -> None:
    """Correct what was reserved to the tokens that were used, in all and with one credential, and
    to the calls that were sent. By scope `weights` say as how much each of them counts, `weighed`
    what was used in all."""
    if credential_tokens is None:
        credential_tokens = tokens
    amounts = []
    for each in taken.limits:
        used = each.cost
        if each.counts_tokens:
            used = credential_tokens if each.scope.startswith(_OF_CREDENTIAL) else tokens
        elif used != calls and each.scope.startswith(_COUNTS_CALLS):
            used = calls
        if weights or weighed:
            used = weighed.get(each.scope, used * weights.get(each.scope, 1))
        amounts.append(used - each.cost)
    rate_limiter().add(taken, amounts)


def is_shared(limit: Limit) -> bool:
    """Whether it is of an endpoint or a credential of the gateway's. Everybody's requests count
    there, so what is left would reveal something of others."""
    return limit.scope.partition(":")[2].startswith(("endpoint:", "credential:"))


def bound_tokens(progress: RequestProgress, endpoint: EndpointEntry) -> int:
    """The most tokens that the request may use at this endpoint."""
    room = Room(endpoint.context_length, endpoint.max_completion_tokens)
    cap = settings.ROUTER_ESTIMATE_OUTPUT_CAP
    tokens = 0
    for demand in progress.demands(endpoint):
        tokens += prompt_tokens_bound(demand, room)
        tokens += output_tokens_bound(demand, room, output_cap=cap)
    return max(1, tokens)


def build_limit_error(full: Full) -> GatewayError:
    """The 429 of a limit that somebody set; 400 where waiting would not help."""
    cause = full.cause
    if isinstance(cause, Bound):
        _, _, name = cause.scope.partition(":")
        text = f"Rate limit exceeded: {cause.most} concurrent requests of {describe_counter(name)}"
        return RateLimited(
            text,
            metadata={"limit_source": SOURCE},
            headers={"Retry-After": str(_PLACE_RETRY_S)},
        )
    kind, _, name = cause.limit.scope.partition(":")
    if full.is_for_good:
        return InvalidRequest(
            f"This request is sent in {cause.limit.cost} calls, more than the {cause.limit.most} "
            f"{_WORDS[kind]} of {describe_counter(name)}. Ask for less at once",
            metadata={"limit_source": SOURCE},
        )
    words = _WORDS.get(kind) or f"requests per {cause.limit.window_s} seconds"
    text = f"Rate limit exceeded: {cause.limit.most} {words} of {describe_counter(name)}"
    if kind != TOKENS and cause.limit.cost > 1:
        text += f". This request counts as {cause.limit.cost}"
    if kind == TOKENS and not is_shared(cause.limit):
        left = max(0, cause.limit.most - cause.used)
        text += f". This request may take up to {cause.limit.cost} of them, and {left} are left"
    return build_refusal(cause, source=SOURCE, message=text)
