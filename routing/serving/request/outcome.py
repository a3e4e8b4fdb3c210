"""How a call ended, and what it is charged."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.prices import Prices
from routing.guarding.output_guard import WITHHELD
from routing.metering.byok import fee_nano
from routing.metering.cost import (
    FREE,
    Cost,
    ServerToolUse,
    Units,
    build_usage_report,
    compute_cost,
    exact_cost,
    searches_nano,
)
from routing.metering.usage import Usage, add_usages, estimate_tokens, read_reported_usage
from routing.response_cache.cached_answers import Entry
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import ErrorFacts, describe_error
from routing.serving.request.legs import Leg, sum_charges, sum_legs
from routing.serving.request.loop import Loop
from routing.tools.interface import Result

# No balance is that large, and the books' columns end a little above it.
CHARGE_MAX_NANO = 2**62
_NOTHING = Usage(prompt_tokens=0, completion_tokens=0)


class Outcome(NamedTuple):
    """The end of a call. `cost` is what the tokens cost by the pinned price list, `charged_nano`
    what the account pays of it. That is nothing where the upstream failed, and a fee where the
    team's own credential was used. `byok_nano` is the price of what the team's own credential
    brought. `shared_nano` is the part of the charge that is no fee where the gateway's was used as
    well."""

    status: int
    usage: Usage
    cost: Cost
    charged_nano: int
    finish_reason: str | None = None
    native_finish: str | None = None
    error: ErrorFacts | None = None
    cancelled: bool = False
    service_tier: str | None = None
    byok_nano: int = 0
    shared_nano: int = 0
    tools: ServerToolUse | None = None

    @property
    def error_type(self) -> str | None:
        return None if self.error is None else self.error.error_type


def measure_usage(
    progress: RequestProgress,
    attempt: Attempt,
    reported: object,
    produced_chars: int,
    *,
    prompt_chars: int | None = None,
) -> Usage:
    """The upstream's usage where it can be true, else the estimator's. `prompt_chars` is of a part
    of the request."""
    produced = estimate_tokens(produced_chars)
    prompt = estimate_tokens(
        progress.context.chat.prompt_text_chars if prompt_chars is None else prompt_chars
    )
    context_length = attempt.endpoint.context_length
    usage = read_reported_usage(
        reported,
        context_length=context_length and context_length * progress.context.demand.contexts,
        produced_tokens=produced,
        prompt_estimate=prompt,
    )
    if usage is not None and price(progress, attempt, usage).total_nano <= CHARGE_MAX_NANO:
        return usage
    return Usage(prompt_tokens=prompt, completion_tokens=produced, estimated=True)


def price(progress: RequestProgress, attempt: Attempt, usage: Usage) -> Cost:
    """By the prices pinned at admission, overrides applied."""
    if attempt.priced is None or attempt.priced[0] is not usage:
        attempt.priced = (usage, compute_cost(usage, *_pinned_prices(progress, attempt, usage)))
    return attempt.priced[1]


def own_usage(attempt: Attempt, outcome: Outcome) -> Usage:
    """What the attempt itself has used: an outcome is that of the whole request."""
    return outcome.usage if attempt.priced is None else attempt.priced[0]


def note_house_cost(progress: RequestProgress, attempt: Attempt, usage: Usage) -> None:
    """Note what the provider bills on the attempt's credential, where it has a pool of them."""
    if attempt.house is not None:
        attempt.house_nano = price(progress, attempt, usage).total_nano


def _pinned_prices(
    progress: RequestProgress, attempt: Attempt, usage: Usage
) -> tuple[Prices, Units]:
    prices = attempt.endpoint.prices
    assert prices is not None
    pinned = prices.effective(usage.prompt_tokens, progress.context.created_at)
    return pinned, Units(images=progress.context.demand.images, web_searches=usage.web_searches)


def answered_outcome(
    progress: RequestProgress,
    attempt: Attempt,
    usage: Usage,
    *,
    finish_reason: str,
    native_finish: str | None,
    service_tier: str | None,
    cancelled: bool = False,
) -> Outcome:
    """An answer in full, or up to where its caller left. An answer without a token and without a
    finish reason of the upstream's own is free; so is one that ends in an error."""
    if progress.loop is not None:
        note_turn(progress, attempt, usage, native_finish=native_finish, cancelled=cancelled)
        return loop_outcome(
            progress,
            finish_reason=finish_reason,
            native_finish=native_finish,
            service_tier=service_tier,
            cancelled=cancelled,
        )
    cost = price(progress, attempt, usage)
    if attempt.house is not None:
        attempt.house_nano = cost.total_nano
    empty = usage.completion_tokens == 0 and native_finish is None and not cancelled
    priced_nano = 0 if empty or finish_reason == "error" else cost.total_nano
    is_byok = attempt.own is not None
    outcome = Outcome(
        status=200,
        usage=usage,
        cost=cost,
        charged_nano=fee_nano(priced_nano) if is_byok else priced_nano,
        byok_nano=priced_nano if is_byok else 0,
        finish_reason=None if cancelled else finish_reason,
        native_finish=native_finish,
        cancelled=cancelled,
        service_tier=service_tier,
    )
    if not (legs := progress.legs):
        return outcome
    whole = include_legs(outcome, legs, is_own=is_byok)
    is_free = empty or finish_reason == "error"
    if is_free and (progress.rescue is None or not progress.rescue.legs):
        # Nobody pays for what was cancelled in favour of an answer that is free.
        return whole._replace(charged_nano=0, byok_nano=0, shared_nano=0)
    return whole


def include_legs(outcome: Outcome, legs: Sequence[Leg], *, is_own: bool) -> Outcome:
    """The outcome of the attempt that answered, made that of the whole request. `is_own` says that
    it was made with the team's own credential."""
    shared_nano, own_nano = sum_charges(legs)
    if is_own:
        own_nano += outcome.byok_nano
    else:
        shared_nano += outcome.charged_nano
    usage, cost = sum_legs(legs, outcome.usage, outcome.cost, most_nano=CHARGE_MAX_NANO)
    return outcome._replace(
        usage=usage,
        cost=cost,
        charged_nano=min(CHARGE_MAX_NANO, shared_nano + fee_nano(own_nano)),
        byok_nano=own_nano,
        shared_nano=shared_nano if own_nano else 0,
    )


def note_turn(
    progress: RequestProgress,
    attempt: Attempt,
    usage: Usage,
    *,
    native_finish: str | None,
    cancelled: bool = False,
    broken: bool = False,
) -> None:
    """Count one turn of a loop: the model's answer, in full or up to where its caller left. One
    without a token and without a finish reason of the upstream's own is free; so is one that the
    upstream broke off."""
    loop = progress.loop
    assert loop is not None
    note_house_cost(progress, attempt, usage)
    attempt.tokens_used += usage.total_tokens
    loop.tally.add_turn(
        usage,
        exact_cost(usage, *_pinned_prices(progress, attempt, usage)),
        is_own=attempt.own is not None,
        is_free=broken
        or (usage.completion_tokens == 0 and native_finish is None and not cancelled),
    )
    progress.root_loop.shares[id(progress)] = loop.tally.most_owed


def note_results(progress: RequestProgress, attempt: Attempt, results: Iterable[Result]) -> None:
    """Count what tools cost that the attempt's model called, and those that were run."""
    loop, prices = progress.loop, attempt.endpoint.prices
    ended_calls = progress.root_loop.ended_calls
    assert loop is not None
    assert prices is not None
    for result in results:
        if result.tool:
            ended_calls[result.tool, result.failed] += 1
        loop.tally.add_fee(result.cost_nano)
        loop.tally.add_web(
            results=result.search_results, engine=result.search_engine, fetches=result.fetches
        )
        if result.web_searches:
            pinned = prices.effective(loop.tally.usage.prompt_tokens, progress.context.created_at)
            loop.tally.add_searches(result.web_searches)
            loop.tally.add_fee(searches_nano(result.web_searches, pinned))


def loop_outcome(
    progress: RequestProgress,
    *,
    finish_reason: str,
    native_finish: str | None = None,
    service_tier: str | None = None,
    cancelled: bool = False,
) -> Outcome:
    """The end of a loop whose turns were counted."""
    assert progress.loop is not None
    tally = progress.loop.tally
    charge = tally.whole_charge
    return Outcome(
        status=200,
        usage=tally.usage,
        cost=tally.cost,
        charged_nano=charge.charged_nano,
        byok_nano=charge.byok_nano,
        shared_nano=charge.shared_nano,
        finish_reason=None if cancelled else finish_reason,
        native_finish=native_finish,
        cancelled=cancelled,
        service_tier=service_tier,
        tools=progress.loop.tool_use,
    )


def failed_outcome(
    error: GatewayError,
    *,
    usage: Usage = _NOTHING,
    cost: Cost = FREE,
    loop: Loop | None = None,
) -> Outcome:
    """An upstream failure: no token charge, whatever the provider will bill (`cost`). What tools
    of a `loop` did before is charged."""
    if loop is not None:
        fees, before = loop.tally.fees, loop.tally.cost
        both = Cost(*(one + other for one, other in zip(before, cost, strict=True)))
        used = add_usages(loop.tally.usage, usage)
        return Outcome(
            status=error.status,
            usage=used,
            cost=both,
            charged_nano=fees.charged_nano,
            byok_nano=fees.byok_nano,
            shared_nano=fees.shared_nano,
            finish_reason="error"
            if loop.turns or usage is not _NOTHING or used != _NOTHING
            else None,
            error=describe_error(error),
            tools=loop.tool_use,
        )
    return Outcome(
        status=error.status,
        usage=usage,
        cost=cost,
        charged_nano=0,
        finish_reason="error" if usage is not _NOTHING else None,
        error=describe_error(error),
    )


def unserved_outcome(progress: RequestProgress, error: GatewayError) -> Outcome:
    """The failure of a request of whose last attempt nothing came."""
    if not (legs := progress.legs):
        return failed_outcome(error, loop=progress.loop)
    usage, cost = sum_legs(legs, most_nano=CHARGE_MAX_NANO)
    return failed_outcome(error, usage=usage, cost=cost)


def mark_broken(outcome: Outcome, attempt: Attempt) -> Outcome:
    """The outcome of an answer that the upstream broke off and whose caller gets what came. It is a
    failure on record, as it is of a stream."""
    failure = attempt.failure
    if failure is None:
        return outcome
    detail = {"provider_name": attempt.endpoint.provider.name}
    error = ErrorFacts(failure.error_type, failure.error_type, failure.message, detail)
    return outcome._replace(status=failure.caller_status, error=error)


def abandoned_outcome(progress: RequestProgress) -> Outcome:
    """The caller was gone before an upstream accepted: nothing is owed but for the turns before, in
    a loop."""
    # A turn is in the tally before the loop goes on with it.
    if progress.loop is not None and (progress.loop.turns or progress.loop.tally.total_nano):
        return loop_outcome(progress, finish_reason="stop", cancelled=True)
    if legs := progress.legs:
        outcome = Outcome(200, _NOTHING, FREE, charged_nano=0, cancelled=True)
        return include_legs(outcome, legs, is_own=False)
    return Outcome(status=499, usage=_NOTHING, cost=FREE, charged_nano=0, cancelled=True)


def cached_outcome(entry: Entry) -> Outcome:
    """An answer from the response cache."""
    return Outcome(
        status=200,
        usage=_NOTHING,
        cost=FREE,
        charged_nano=0,
        finish_reason=entry.finish_reason,
        native_finish=entry.native_finish,
    )


def guarded_finish(progress: RequestProgress, finish_reason: str) -> str:
    """The finish reason that the caller reads, which is another where guardrails kept the answer
    back. The charge is the same."""
    guard = progress.output_guard
    return WITHHELD if guard is not None and guard.withheld else finish_reason


def good_end(outcome: Outcome) -> tuple[str, str | None] | None:
    """The finish reasons of an answer in full; None for what was broken off."""
    finish = outcome.finish_reason
    if outcome.status != 200 or outcome.cancelled or finish in (None, "error"):
        return None
    assert finish is not None
    return finish, outcome.native_finish


def report_usage(outcome: Outcome, attempt: Attempt) -> JsonObject:
    """The `usage` object that the attempt's caller reads."""
    return build_usage_report(
        outcome.usage,
        charged_nano=outcome.charged_nano,
        cost=outcome.cost,
        is_byok=attempt.own is not None,
        tools=outcome.tools,
    )
