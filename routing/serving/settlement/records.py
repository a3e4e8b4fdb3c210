"""The record of a call, and the order that tells the ledger how it ended."""

from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Any

from gateway.http.jsonio import dumps
from routing.ledger.orders import SettleOrder
from routing.metering.cost import PRICED_COUNTS
from routing.selection.trace import TracedAttempt, build_trace
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import Outcome
from routing.serving.settlement.facts import history_facts, own_credential, own_part

_priced_counts = attrgetter(*PRICED_COUNTS)
_value = itemgetter(1)


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


def _record(call: Call, outcome: Outcome) -> dict[str, Any]:
    last, first = call.last_attempt, _first_served(call)
    usage, held_nano = outcome.usage, call.held_nano or 0
    model, provider_name, endpoint_tag = _served_by(call)
    return {
        "created_at": call.created_at,
        "api_type": call.format.api_type,
        "model": model,
        "provider_name": provider_name,
        "endpoint_tag": endpoint_tag,
        "requested_model": call.requested_model[:300],
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


def _served_by(call: Call) -> tuple[str, str | None, str | None]:
    """Model, provider and endpoint that gave the answer; of one from the response cache, those that
    gave it first."""
    last, retold = call.last_attempt, call.retold
    if retold is not None:
        return retold.model, retold.provider_name, retold.endpoint_tag
    if last is not None:
        return last.endpoint.model_id, last.endpoint.provider.name, last.endpoint.tag
    return call.requested_model, None, None


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
    trace = build_trace(
        call.plan,
        choice.ask,
        choice.policy,
        choice.state,
        models=[model.id for model in choice.models],
        requested=choice.requested,
        strategy=call.strategy,
        attempts=[_traced(attempt, outcome) for attempt in call.attempts],
        chosen=last.endpoint.pk if last and answered and outcome.error_type is None else None,
    )
    if filtered := [stage for stage in call.stages if stage["type"] == "guardrail"]:
        trace["guardrails"] = [
            {"id": each["guardrail_id"], "scope": each["guardrail_scope"], **each["data"]}
            for each in filtered
        ]
    return trace


def _traced(attempt: Attempt, outcome: Outcome) -> TracedAttempt:
    failure = attempt.failure
    return TracedAttempt(attempt.endpoint.pk, failure.error_type if failure else outcome.error_type)


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
        **dict(zip(PRICED_COUNTS, _priced_counts(outcome.usage), strict=True)),
        **history_facts(call, last, outcome),
        "decisions": call.decided,
        "region": last.endpoint.region if last else "global",
        "pricing": dict(last.endpoint.pricing or {}) if last else None,
        "byok": own_credential(call, outcome),
        "server_tools": outcome.tools._asdict() if outcome.tools else None,
        "response_cache_source_id": call.retold.generation_id if call.retold else None,
    }
    facts = {name: fact for plugin in call.plugins for name, fact in plugin.facts.items()}
    return dict(filter(_value, detail.items())) | facts | own_part(call, outcome)


def _ms(started: float, ended: float | None) -> int | None:
    return None if ended is None else max(0, round((ended - started) * 1000))
