"""`router_metadata`: what was considered, tried and chosen, for callers who opted in."""

from typing import Any

from django.conf import settings

from routing.serving.request.call import Attempt, Call


def router_metadata(call: Call, *, selected: Attempt | None) -> dict[str, Any]:
    """Section 8 of the inference reference; `selected` is the attempt that answered."""
    endpoints = call.plan.considered
    available = [
        {
            "provider": endpoint.provider.name,
            "model": endpoint.model_id,
            "selected": selected is not None and endpoint is selected.endpoint,
        }
        for endpoint in endpoints
    ]
    summary = f"available={len(endpoints)}"
    number = len(call.attempts)
    if selected is not None:
        summary += f", selected={selected.endpoint.provider.name}"
        number = call.attempts.index(selected) + 1
    value: dict[str, Any] = {
        "requested": call.requested_model,
        "strategy": call.strategy,
        "region": settings.ROUTER_REGION,
        "summary": summary,
        "attempt": number,
        "is_byok": selected is not None and selected.own is not None,
        "endpoints": {"total": len(endpoints), "available": available},
    }
    if selected is not None and selected.ended is not None:
        value["generation_time"] = round((selected.ended - selected.started) * 1000)
    if call.attempts:
        value["attempts"] = [_attempt(attempt) for attempt in call.attempts]
    if params := _params(call):
        value["params"] = params
    if call.stages:
        value["pipeline"] = call.stages
    return value


def wished_metadata(call: Call, *, selected: Attempt | None) -> dict[str, Any] | None:
    """The same where the caller opted in."""
    return router_metadata(call, selected=selected) if call.wants_metadata else None


def _params(call: Call) -> dict[str, Any]:
    """What the choice was held to: the family whose newest model was taken, the wished speed."""
    params: dict[str, Any] = {}
    if call.strategy == "latest" and call.choice.models:
        params["version_group"] = call.choice.models[0].family
    floors = call.choice.policy.min_throughput_tps
    if floors:
        params["throughput_floor"] = floors.get("p50", min(floors.values()))
    return params


def _attempt(attempt: Attempt) -> dict[str, Any]:
    endpoint = attempt.endpoint
    return {
        "provider": endpoint.provider.name,
        "model": endpoint.model_id,
        "status": attempt.status,
    }
