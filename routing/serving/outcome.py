"""How a call ended, what it is charged, and the order that tells the ledger so."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gateway.http.errors import GatewayError
from gateway.http.jsonio import dumps
from routing.catalogue.prices import Prices
from routing.metering.byok import fee_nano
from routing.metering.cost import (
    FREE,
    PRICED_COUNTS,
    Cost,
    Units,
    cost_of,
    exact_cost,
    searches_nano,
)
from routing.metering.orders import SettleOrder
from routing.metering.report import ToolUse, usage_report
from routing.metering.usage import Usage, believable, estimated_tokens, summed
from routing.selection.trace import Tried, trace_of
from routing.serving.call import Attempt, Call
from routing.serving.facts import history_facts
from routing.serving.loop import Loop
from routing.tools.interface import Result

# No balance is that large, and the books' columns end a little above it.
CHARGE_MAX_NANO = 2**62
_NOTHING = Usage(prompt_tokens=0, completion_tokens=0)


class Outcome(NamedTuple):
    """The end of a call. `cost` is what the tokens cost by the pinned price list, `charged_nano`
    what the account pays of it: nothing where the upstream failed it, a fee where the team's own
    credential was used. `byok_nano` is the price of what was got with such a one; `shared_nano` is
    the part of the charge that is no fee where the gateway's was used as well."""

    status: int
    usage: Usage
    cost: Cost
    charged_nano: int
    finish_reason: str | None = None
    native_finish: str | None = None
    error_type: str | None = None
    cancelled: bool = False
    service_tier: str | None = None
    byok_nano: int = 0
    shared_nano: int = 0
    tools: ToolUse | None = None


def measured(
    call: Call,
    attempt: Attempt,
    reported: Any,
    produced_chars: int,
    *,
    prompt_chars: int | None = None,
) -> Usage:
    """The upstream's usage where it can be true, else the estimator's. `prompt_chars` is of a part
    of the request."""
    produced = estimated_tokens(produced_chars)
    prompt = estimated_tokens(call.chat.prompt_text_chars if prompt_chars is None else prompt_chars)
    usage = believable(
        reported,
        context_length=attempt.endpoint.context_length,
        produced_tokens=produced,
        prompt_estimate=prompt,
    )
    if usage is not None and price(call, attempt, usage).total_nano <= CHARGE_MAX_NANO:
        return usage
    return Usage(prompt_tokens=prompt, completion_tokens=produced, estimated=True)


def price(call: Call, attempt: Attempt, usage: Usage) -> Cost:
    """By the prices pinned at admission, overrides applied."""
    return cost_of(usage, *_priced(call, attempt, usage))


def _priced(call: Call, attempt: Attempt, usage: Usage) -> tuple[Prices, Units]:
    prices = attempt.endpoint.prices
    assert prices is not None
    pinned = prices.effective(usage.prompt_tokens, call.created_at)
    return pinned, Units(images=call.demand.images, web_searches=usage.web_searches)


def answered(
    call: Call,
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
    if call.loop is not None:
        note_turn(call, attempt, usage, native_finish=native_finish, cancelled=cancelled)
        return loop_outcome(
            call,
            finish_reason=finish_reason,
            native_finish=native_finish,
            service_tier=service_tier,
            cancelled=cancelled,
        )
    cost = price(call, attempt, usage)
    empty = usage.completion_tokens == 0 and native_finish is None and not cancelled
    priced_nano = 0 if empty or finish_reason == "error" else cost.total_nano
    is_byok = attempt.own is not None
    return Outcome(
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


def note_turn(
    call: Call,
    attempt: Attempt,
    usage: Usage,
    *,
    native_finish: str | None,
    cancelled: bool = False,
) -> None:
    """Count one turn of a loop: the model's answer, in full or up to where its caller left. One
    without a token and without a finish reason of the upstream's own is free."""
    loop = call.loop
    assert loop is not None
    loop.tally.add_turn(
        usage,
        exact_cost(usage, *_priced(call, attempt, usage)),
        is_own=attempt.own is not None,
        is_free=usage.completion_tokens == 0 and native_finish is None and not cancelled,
    )
    call.root.shares[id(call)] = loop.tally.owed


def note_results(call: Call, attempt: Attempt, results: Iterable[Result]) -> None:
    """Count what tools cost that the attempt's model called."""
    loop, prices = call.loop, attempt.endpoint.prices
    assert loop is not None
    assert prices is not None
    for result in results:
        loop.tally.add_fee(result.cost_nano)
        loop.tally.add_web(
            results=result.search_results, engine=result.search_engine, fetches=result.fetches
        )
        if result.web_searches:
            pinned = prices.effective(loop.tally.usage.prompt_tokens, call.created_at)
            loop.tally.add_searches(result.web_searches)
            loop.tally.add_fee(searches_nano(result.web_searches, pinned))


def loop_outcome(
    call: Call,
    *,
    finish_reason: str,
    native_finish: str | None = None,
    service_tier: str | None = None,
    cancelled: bool = False,
) -> Outcome:
    """The end of a loop whose turns were counted."""
    assert call.loop is not None
    tally = call.loop.tally
    charge = tally.whole
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
        tools=call.loop.tool_use,
    )


def failed(
    error: GatewayError,
    *,
    usage: Usage = _NOTHING,
    cost: Cost = FREE,
    loop: Loop | None = None,
) -> Outcome:
    """An upstream failure: no token charge, whatever the provider will bill (`cost`). What tools
    of a `loop` did before is charged."""
    if loop is not None:
        return _failed_loop(loop, error, usage=usage, cost=cost)
    return Outcome(
        status=error.status,
        usage=usage,
        cost=cost,
        charged_nano=0,
        finish_reason="error" if usage is not _NOTHING else None,
        error_type=error.error_type,
    )


def _failed_loop(loop: Loop, error: GatewayError, *, usage: Usage, cost: Cost) -> Outcome:
    fees, before = loop.tally.fees, loop.tally.cost
    both = Cost(*(one + other for one, other in zip(before, cost, strict=True)))
    return Outcome(
        status=error.status,
        usage=summed(loop.tally.usage, usage),
        cost=both,
        charged_nano=fees.charged_nano,
        byok_nano=fees.byok_nano,
        shared_nano=fees.shared_nano,
        finish_reason="error" if loop.turns or usage is not _NOTHING else None,
        error_type=error.error_type,
        tools=loop.tool_use,
    )


def left_early(call: Call) -> Outcome:
    """The caller was gone before an upstream accepted: nothing is owed but for the turns before, in
    a loop."""
    if call.loop is not None and call.loop.turns:
        return loop_outcome(call, finish_reason="stop", cancelled=True)
    return Outcome(status=499, usage=_NOTHING, cost=FREE, charged_nano=0, cancelled=True)


def settle_order(call: Call, outcome: Outcome) -> SettleOrder:
    """The charge and the record of a call."""
    return SettleOrder(
        generation_id=call.generation_id,
        payer=call.payer,
        charge_nano=outcome.charged_nano,
        settled_at=datetime.now(UTC),
        record=_record(call, outcome),
        held_nano=call.held_nano,
        byok_nano=outcome.byok_nano,
        held_byok_nano=call.held_byok_nano,
        shared_nano=outcome.shared_nano,
    )


def report_of(outcome: Outcome, attempt: Attempt) -> dict[str, Any]:
    """The `usage` object that the attempt's caller reads."""
    return usage_report(
        outcome.usage,
        charged_nano=outcome.charged_nano,
        cost=outcome.cost,
        is_byok=attempt.own is not None,
        tools=outcome.tools,
    )


def _record(call: Call, outcome: Outcome) -> dict[str, Any]:
    last, first = call.last_attempt, _first_served(call)
    usage, held_nano = outcome.usage, call.held_nano or 0
    return {
        "created_at": call.created_at,
        "api_type": call.format.api_type,
        "model": last.endpoint.model_id if last else call.requested_model,
        "requested_model": call.requested_model[:300],
        "provider_name": last.endpoint.provider.name if last else None,
        "endpoint_tag": last.endpoint.tag if last else None,
        "status": outcome.status,
        "error_type": outcome.error_type,
        "streamed": call.chat.stream,
        "cancelled": outcome.cancelled,
        "lost": False,
        "overrun": outcome.charged_nano > held_nano,
        "finish_reason": outcome.finish_reason,
        "native_finish_reason": (outcome.native_finish or "")[:64] or None,
        "tokens_prompt": usage.prompt_tokens,
        "tokens_completion": usage.completion_tokens,
        "tokens_reasoning": usage.reasoning_tokens,
        "tokens_cached": usage.cached_tokens,
        "charge_nano": outcome.charged_nano,
        "hold_nano": held_nano,
        "upstream_cost_nano": outcome.cost.total_nano,
        "is_byok": last is not None and last.own is not None and _was_served(outcome),
        "latency_ms": _ms(first.started, first.first_token) if first else None,
        "generation_time_ms": _ms(first.started, last.ended) if first and last else None,
        "upstream_id": (last.upstream_id or "")[:200] or None if last else None,
        "session_id": call.chat.session_id,
        "external_user": call.chat.user,
        "service_tier": (outcome.service_tier or "")[:32] or None,
        "preset_id": call.preset_id,
        "attempts": dumps([_attempt(attempt) for attempt in call.attempts]).decode(),
        "detail": dumps(_detail(call, outcome)).decode(),
        "trace": dumps(_trace(call, outcome)).decode(),
    }


def _first_served(call: Call) -> Attempt | None:
    """The attempt with which the answer began: in a loop, that of its first turn."""
    if call.loop is None or not call.loop.turns:
        return call.last_attempt
    served = (attempt for attempt in call.attempts if attempt.failure is None)
    return next(served, call.last_attempt)


def _was_served(outcome: Outcome) -> bool:
    """Whether the caller got something of an answer."""
    return outcome.status == 200 or outcome.finish_reason is not None


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "status": attempt.status,
        "provider_name": attempt.endpoint.provider.name,
        "model_permaslug": attempt.endpoint.canonical_slug,
        "endpoint_id": attempt.endpoint.tag,
        "id": attempt.upstream_id,
        "latency": _ms(attempt.started, attempt.first_token or attempt.ended),
        "is_byok": attempt.own is not None,
        "routed_service_tier": attempt.endpoint.tier,
        "error_type": attempt.failure.error_type if attempt.failure else None,
    }


def _trace(call: Call, outcome: Outcome) -> dict[str, Any]:
    choice, last = call.choice, call.last_attempt
    answered = last is not None and (last.failure is None or last is call.served_by)
    trace = trace_of(
        call.plan,
        choice.ask,
        choice.policy,
        choice.state,
        models=[model.id for model in choice.models],
        requested=choice.requested,
        strategy=call.strategy,
        attempts=[_tried(attempt, outcome) for attempt in call.attempts],
        chosen=last.endpoint.pk if last and answered and outcome.error_type is None else None,
    )
    if filtered := [stage for stage in call.stages if stage["type"] == "guardrail"]:
        trace["guardrails"] = [
            {"id": each["guardrail_id"], "scope": each["guardrail_scope"], **each["data"]}
            for each in filtered
        ]
    return trace


def _tried(attempt: Attempt, outcome: Outcome) -> Tried:
    failure = attempt.failure
    return Tried(attempt.endpoint.pk, failure.error_type if failure else outcome.error_type)


def _detail(call: Call, outcome: Outcome) -> dict[str, Any]:
    """What nobody filters by: app facts, the estimator's mark, the price list that was pinned."""
    last = call.last_attempt
    detail: dict[str, Any] = {
        "format": call.format.name,
        "http_referer": call.app.referer,
        "app_title": call.app.title,
        "app_categories": call.app.categories,
        "user_agent": call.app.user_agent,
        "usage_estimated": outcome.usage.estimated,
        "completion_images": outcome.usage.completion_image_tokens,
        "media_parts": call.chat.media_parts,
        "images": call.demand.images,
        **{name: getattr(outcome.usage, name) for name in PRICED_COUNTS},
        **history_facts(call, last, outcome),
        "decisions": call.decided,
        "region": last.endpoint.region if last else "global",
        "pricing": dict(last.endpoint.pricing or {}) if last else None,
        "byok": {"id": last.own.id, "label": last.own.label} if last and last.own else None,
        "server_tools": outcome.tools._asdict() if outcome.tools else None,
    }
    return {name: value for name, value in detail.items() if value}


def _ms(started: float, ended: float | None) -> int | None:
    return None if ended is None else max(0, round((ended - started) * 1000))
