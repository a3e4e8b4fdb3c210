"""The record of a request, and the order that tells the ledger how it ended.

The detail holds only what is there: most requests have little of it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Final

from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import CANCELLED
from routing.history.client_app import NO_APP, parse_app
from routing.ledger.orders import CredentialSpending, SettleOrder
from routing.ledger.tickets import Ticket
from routing.metering.cost import PRICED_COUNTS, cache_saving_nano, web_search_nano
from routing.reports.flood import gate
from routing.reports.report import RequestReport, read_phases
from routing.selection.model_references import ROUTERS
from routing.selection.trace import TracedAttempt, build_trace
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import describe_error
from routing.serving.request.outcome import Outcome
from routing.serving.request.process import now

_priced_counts = attrgetter(*PRICED_COUNTS)
_value = itemgetter(1)


def settle_order(progress: RequestProgress, outcome: Outcome) -> SettleOrder:
    """The charge and the record of a call."""
    return SettleOrder(
        generation_id=progress.context.generation_id,
        payer=progress.context.payer,
        charge_nano=outcome.charged_nano,
        settled_at=datetime.now(UTC),
        record=_build_record(progress, outcome),
        held_nano=progress.held_nano,
        byok_nano=outcome.byok_nano,
        held_byok_nano=progress.held_byok_nano,
        shared_nano=outcome.shared_nano,
        credential_spend=list_credential_spend(progress),
    )


def list_credential_spend(progress: RequestProgress) -> Sequence[CredentialSpending]:
    """What was spent on each credential of a pool, also for models that tools asked."""
    submodels = progress.loop.submodel_attempts if progress.loop is not None else ()
    attempts = chain(progress.attempts, *submodels)
    spent: dict[tuple[str, str], int] = {}
    for attempt in attempts:
        if attempt.house is not None and attempt.house_nano is not None:
            name = attempt.house.provider, attempt.house.label
            spent[name] = spent.get(name, 0) + attempt.house_nano
    return [CredentialSpending(*name, cost_nano) for name, cost_nano in spent.items()]


def build_report(
    progress: RequestProgress, outcome: Outcome, order: SettleOrder, ticket: Ticket
) -> RequestReport:
    """The report of a request that an upstream or the response cache answered, or failed."""
    context, loop, error = progress.context, progress.loop, outcome.error
    return RequestReport(
        ended_at=order.settled_at,
        started=context.started,
        ended=now(),
        identity=context.identity,
        caller=context.caller,
        format=context.format.name,
        requested_model=order.record["requested_model"],
        streamed=context.chat.stream,
        status=outcome.status,
        error=error,
        generation_id=context.generation_id,
        record=order.record,
        attempts=progress.attempts,
        content=progress.content,
        trace=context.chat.trace,
        region=context.region,
        phases=read_phases(progress),
        settlement=ticket,
        tool_calls=loop.server_calls if loop is not None else (),
        ended_calls=loop.ended_calls if loop is not None else {},
        submodel_attempts=loop.submodel_attempts if loop is not None else (),
        is_counted=error is not None and _is_counted(context.caller),
        tags=context.tags,
        guard_checks=progress.guard_checks,
    )


def replace_end(report: RequestReport, error: GatewayError) -> RequestReport:
    """The report of a request that was booked, but whose caller got this error."""
    is_counted = report.is_counted or (report.error is None and _is_counted(report.caller))
    return report._replace(
        ended_at=datetime.now(UTC),
        ended=now(),
        status=error.status,
        error=describe_error(error),
        is_counted=is_counted,
    )


def _is_counted(caller: Caller | None) -> bool:
    return caller is not None and not gate.admits(str(caller.key_id))


def _build_record(progress: RequestProgress, outcome: Outcome) -> JsonObject:
    last = progress.last_attempt
    first = last
    check = progress.schema_check
    if (progress.loop is not None and progress.loop.turns) or (check is not None and check.legs):
        # The answer of a loop began with that of its first turn, and a repair with the first try.
        first = next((each for each in progress.attempts if each.failure is None), last)
    if progress.rescue is not None and progress.rescue.legs:
        first = progress.rescue.legs[0].attempt
    context, usage, held_nano = progress.context, outcome.usage, progress.held_nano or 0
    model, provider_name, endpoint_tag = _find_server(progress, last)
    return {
        "created_at": context.created_at,
        "api_type": context.format.api_type,
        "model": model,
        "provider_name": provider_name,
        "endpoint_tag": endpoint_tag,
        "requested_model": context.requested_model[:300],
        "status": outcome.status,
        "error_type": outcome.error_type,
        "streamed": context.chat.stream,
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
        "is_byok": last is not None
        and last.own is not None
        and (outcome.status == 200 or outcome.finish_reason is not None),
        "latency_ms": _ms(first.started, first.first_token) if first else None,
        "generation_time_ms": _ms(first.started, last.ended) if first and last else None,
        "upstream_id": (last.upstream_id or "")[:200] or None if last else None,
        "session_id": context.chat.session_id,
        "external_user": context.chat.user,
        "service_tier": (outcome.service_tier or "")[:32] or None,
        "preset_id": context.preset_id,
        "attempts": dumps(
            [_describe_attempt(progress, attempt) for attempt in progress.attempts]
        ).decode(),
        "detail": dumps(_build_detail(progress, last, outcome)).decode(),
        "trace": write_trace(progress, last, outcome.error_type),
    }


def _describe_attempt(progress: RequestProgress, attempt: Attempt) -> JsonObject:
    """Times are milliseconds since it was asked for."""
    begun, ended, failure = attempt.first_token, attempt.ended, attempt.failure
    described: JsonObject = {
        "status": attempt.status,
        "provider_name": attempt.endpoint.provider.name,
        "model_permaslug": attempt.endpoint.canonical_slug,
        "endpoint_id": attempt.endpoint.tag,
        "id": attempt.upstream_id,
        "latency": _ms(attempt.started, begun or ended),
        "is_byok": attempt.own is not None,
        "routed_service_tier": attempt.endpoint.tier,
        "error_type": failure.error_type if failure else None,
    }
    is_cut = failure is not None and failure.error_type != CANCELLED
    if is_cut and begun is not None and ended is not None and ended > begun:
        # An answer that had begun broke off.
        described["broke_off_ms"] = _ms(attempt.started, ended)
    if attempt.house:
        # For operators; callers do not see it.
        described["credential"] = attempt.house.label
    hedge = progress.hedge
    if hedge is not None and any(attempt is each for each in hedge.racing[1:]):
        # How long after the first of its race it was asked.
        described["hedged_after"] = _ms(hedge.racing[0].started, attempt.started)
    return described


def _find_server(
    progress: RequestProgress, last: Attempt | None
) -> tuple[str, str | None, str | None]:
    """Model, provider and endpoint that gave the answer; of one from the response cache, those that
    gave it first."""
    cached = progress.cached
    if cached is not None:
        return cached.model, cached.provider_name, cached.endpoint_tag
    if last is not None:
        return last.endpoint.model_id, last.endpoint.provider.name, last.endpoint.tag
    return progress.context.requested_model, None, None


def write_trace(
    progress: RequestProgress, last: Attempt | None = None, error_type: str | None = None
) -> str:
    """Why the request went where it went, as JSON text; of a refused one its plan."""
    choice = progress.context.choice
    # One that broke off is served where there is no better one.
    is_broken = last is not None and last.failure is not None and last is progress.served_by
    is_chosen = is_broken or (last is not None and last.failure is None and error_type is None)
    trace = build_trace(
        progress.context.plan,
        choice.ask,
        choice.policy,
        choice.state,
        models=[model.id for model in choice.models],
        requested=choice.requested,
        strategy=progress.context.strategy,
        attempts=[
            TracedAttempt(
                attempt.endpoint.pk,
                attempt.failure.error_type if attempt.failure else error_type,
            )
            for attempt in progress.attempts
        ],
        chosen=last.endpoint.pk if last and is_chosen else None,
    )
    if progress.hedge is not None:
        trace["hedge"] = progress.hedge.describe()
    if (stay := progress.queue_stay) is not None:
        trace["queue"] = {"place": stay.place, "waited_ms": round(stay.waited_s * 1000)}
    if progress.guard_checks:
        trace["guards"] = progress.guard_checks
    if progress.schema_check is not None:
        trace["schema"] = progress.schema_check.describe()
    if progress.stages and (classified := _find_classified(progress)) is not None:
        trace["classifier"] = classified
    if filtered := [stage for stage in progress.stages if stage["type"] == "guardrail"]:
        trace["guardrails"] = [
            {"id": each["guardrail_id"], "scope": each["guardrail_scope"], **each["data"]}
            for each in filtered
        ]
    return dumps(trace).decode()


def _find_classified(progress: RequestProgress) -> JsonObject | None:
    """What the classifier of a virtual router said, where it has one."""
    stages = (each["data"] for each in progress.stages if each["type"] == "classifier")
    found: JsonObject | None = next(stages, None)
    return found


def _build_detail(progress: RequestProgress, last: Attempt | None, outcome: Outcome) -> JsonObject:
    """What nobody filters by: app facts, the estimator's mark, the price list that was pinned."""
    context = progress.context
    used = [each.own for each in progress.attempts if each.own is not None]
    # The last attempt's; or, of a request that was partly on the gateway's, the last that was used.
    own = used[-1] if used and outcome.byok_nano else last.own if last else None
    detail: JsonObject = {
        "format": context.format.name,
        "request_id": context.identity.id if context.identity else None,
        "http_referer": context.app.referer,
        "app_title": context.app.title,
        "app_categories": context.app.categories,
        "user_agent": context.app.user_agent,
        "tags": context.tags,
        "usage_estimated": outcome.usage.estimated,
        "completion_images": outcome.usage.completion_image_tokens,
        "media_parts": context.chat.media_parts,
        "images": context.demand.images,
        **dict(zip(PRICED_COUNTS, _priced_counts(outcome.usage), strict=True)),
        **_collect_history_facts(progress, last, outcome),
        "decisions": progress.decisions_record,
        "classifier": _find_classified(progress) if progress.stages else None,
        "region": last.endpoint.region if last else "global",
        "pricing": dict(last.endpoint.pricing or {}) if last else None,
        "byok": {"id": own.id, "label": own.label} if own is not None else None,
        "server_tools": outcome.tools._asdict() if outcome.tools else None,
        "response_cache_source_id": progress.cached.generation_id if progress.cached else None,
    }
    if progress.received is not None:
        # Microseconds from the request's arrival to its plan, and that its hold took.
        detail["plan_us"] = round((context.started - progress.received) * 1e6)
        if progress.hold_asked is not None and progress.attempts:
            detail["hold_us"] = round((progress.attempts[0].started - progress.hold_asked) * 1e6)
    if progress.rescue is not None and progress.rescue.legs:
        detail["rescued_from"] = [leg.describe() for leg in progress.rescue.legs]
    if progress.schema_check is not None:
        detail["schema"] = progress.schema_check.describe()
    if progress.guard_checks:
        looked_ms = sum(each["latency_ms"] for each in progress.guard_checks)
        detail |= {"guards": progress.guard_checks, "moderation_latency_ms": looked_ms}
    kept = dict(filter(_value, detail.items()))
    for plugin in context.plugins:
        kept |= plugin.facts
    if outcome.byok_nano or (last is not None and last.own is not None):
        kept |= _price_own_part(last, outcome)
    return kept


def _ms(started: float, ended: float | None) -> int | None:
    return None if ended is None else max(0, round((ended - started) * 1000))


_GUARDING: Final = "guardrail"


def _collect_history_facts(
    progress: RequestProgress, last: Attempt | None, outcome: Outcome
) -> JsonObject:
    """By the names that `routing.history.columns` reads; empty values are left out later."""
    context, usage, router = progress.context, outcome.usage, None
    app = parse_app(context.app.referer) if context.app.referer else NO_APP
    if context.strategy in ROUTERS.values():
        # The virtual router that was named and chose the model.
        named = (each for each in context.choice.requested if each.split(":", 1)[0] in ROUTERS)
        router = next(named, None)
    has_audio = "audio" in context.chat.input_modalities
    facts: JsonObject = {
        "app": app.url,
        "origin": app.origin,
        "router": router,
        "guarded": any(stage.get("type") == _GUARDING for stage in progress.stages),
        "audio_parts": _count_audio_parts(context.chat.body["messages"]) if has_audio else 0,
        "web_searches": usage.web_searches,
    }
    if progress.loop is not None:
        # What the gateway's own tools did on the web.
        tally = progress.loop.tally
        facts["search_results"], facts["fetches"] = tally.search_results, tally.fetches
        facts["search_engine"] = tally.search_engine
    if last is None:
        return facts
    slug = last.endpoint.canonical_slug
    facts["permaslug"] = slug if slug != last.endpoint.model_id else None
    if usage.cached_tokens or usage.cache_write_tokens or usage.web_searches:
        assert last.endpoint.prices is not None
        prices = last.endpoint.prices.effective(usage.prompt_tokens, context.created_at)
        searched_nano, is_charged = web_search_nano(usage, prices), outcome.charged_nano > 0
        facts["cache_saved_nano"] = _sum_savings(progress, last, outcome) if is_charged else 0
        facts["web_nano"] = searched_nano if is_charged else 0
        facts["web_cost_nano"] = searched_nano
    return facts


def _sum_savings(progress: RequestProgress, last: Attempt, outcome: Outcome) -> int:
    """What caches have saved at each endpoint that is paid for."""
    legs = progress.legs
    parts = [(leg.attempt, leg.usage) for leg in legs]
    if not legs:
        parts = [(last, outcome.usage)]
    elif last.priced is not None and all(leg.attempt is not last for leg in legs):
        parts.append((last, last.priced[0]))
    saved_nano = 0
    for attempt, usage in parts:
        assert attempt.endpoint.prices is not None
        at = progress.context.created_at
        prices = attempt.endpoint.prices.effective(usage.prompt_tokens, at)
        saved_nano += cache_saving_nano(usage, prices)
    return saved_nano


def _count_audio_parts(messages: Sequence[JsonObject]) -> int:
    contents = (message.get("content") for message in messages)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return sum(part.get("type") == "input_audio" for part in parts)


def _price_own_part(last: Attempt | None, outcome: Outcome) -> dict[str, int]:
    """What of cost and charge is of the team's own credentials, where the record's `is_byok` does
    not tell: that says all or nothing."""
    is_byok = last is not None and last.own is not None
    fee_nano = outcome.charged_nano - outcome.shared_nano if outcome.byok_nano else 0
    recorded_nano = outcome.cost.total_nano if is_byok else 0
    is_told = fee_nano == (outcome.charged_nano if is_byok else 0)
    if is_told and outcome.byok_nano in (0, recorded_nano):
        return {}
    return {"own_cost_nano": outcome.byok_nano, "own_fee_nano": fee_nano}
