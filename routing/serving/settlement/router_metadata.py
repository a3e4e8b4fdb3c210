"""What a caller who opted in sees of its request's routing."""

from django.conf import settings

from gateway.http.jsonio import JsonObject
from routing.serving.request.context import Attempt, RequestProgress


def router_metadata(progress: RequestProgress, *, selected: Attempt | None) -> JsonObject:
    """Section 8 of the inference reference; `selected` is the attempt that answered."""
    endpoints = progress.context.plan.considered
    available = [
        {
            "provider": endpoint.provider.name,
            "model": endpoint.model_id,
            "selected": selected is not None and endpoint is selected.endpoint,
        }
        for endpoint in endpoints
    ]
    summary = f"available={len(endpoints)}"
    number = len(progress.attempts)
    if selected is not None:
        summary += f", selected={selected.endpoint.provider.name}"
        number = progress.attempts.index(selected) + 1
    value: JsonObject = {
        "requested": progress.context.requested_model,
        "strategy": progress.context.strategy,
        "region": settings.ROUTER_REGION,
        "summary": summary,
        "attempt": number,
        "is_byok": selected is not None and selected.own is not None,
        "endpoints": {"total": len(endpoints), "available": available},
    }
    if selected is not None and selected.ended is not None:
        value["generation_time"] = round((selected.ended - selected.started) * 1000)
    if progress.attempts:
        value["attempts"] = [
            {
                "provider": attempt.endpoint.provider.name,
                "model": attempt.endpoint.model_id,
                "status": attempt.status,
            }
            for attempt in progress.attempts
        ]
    if params := _params(progress):
        value["params"] = params
    if progress.stages:
        value["pipeline"] = progress.stages
    return value


def build_wanted_metadata(
    progress: RequestProgress, *, selected: Attempt | None
) -> JsonObject | None:
    """The same where the caller opted in."""
    wants = progress.context.wants_metadata
    return router_metadata(progress, selected=selected) if wants else None


def _params(progress: RequestProgress) -> JsonObject:
    """What the choice was held to: the family whose newest model was taken, the wished speed."""
    params: JsonObject = {}
    if progress.context.strategy == "latest" and progress.context.choice.models:
        params["version_group"] = progress.context.choice.models[0].family
    floors = progress.context.choice.policy.min_throughput_tps
    if floors:
        params["throughput_floor"] = floors.get("p50", min(floors.values()))
    return params
