"""The record of a generation: its query and the fields of its object."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from accounts.views.schemas.fields import UsdAmount
from gateway.end_users import hash_user
from gateway.http.jsonio import JsonObject, loads, usd
from gateway.http.resources import ABSENT, Query, ResourceObject
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from routing.selection.explain import Cause, RouteVerdict, explain_route
from routing.selection.replay import REMOVED, UNREADABLE
from routing.selection.trace import VERSION
from routing.selection.types import StayReason

_Milliseconds = Annotated[int | None, Field(description="Milliseconds.")]
# Of attempts: what only operators read.
_OF_OPERATORS: Final = frozenset({"error_type", "credential", "hedged_after", "broke_off_ms"})
_Charge = Annotated[UsdAmount, Field(description="USD charged to the account.")]


class GenerationQuery(Query):
    """The generation that is asked for."""

    id: str = Field(min_length=1)


class ProviderResponse(ResourceObject):
    """One attempt at an endpoint."""

    status: int | None
    provider_name: str = ABSENT
    model_permaslug: str = ABSENT
    endpoint_id: str = ABSENT
    id: str | None = ABSENT
    latency: _Milliseconds = ABSENT
    is_byok: bool = ABSENT
    routed_service_tier: str | None = ABSENT


class RequestError(ResourceObject):
    """Why a request failed: `reason` says which limit, budget or filter it was."""

    code: int
    error_type: str
    reason: str
    message: str = ABSENT
    metadata: JsonObject = ABSENT


class RemovedEndpoint(ResourceObject):
    """An endpoint that could not serve the request, and the filter that removed it."""

    model: str
    endpoint_id: str
    removed_by: str


class RefusedRequestObject(ResourceObject):
    """A request for which no upstream was asked. It has no id but its request id."""

    model_config = ConfigDict(title="RefusedRequest")

    id: None
    request_id: str
    created_at: datetime
    format: str
    model: str
    workspace_id: str | None
    streamed: bool
    duration: _Milliseconds
    total_cost: _Charge
    tags: dict[str, str]
    error: RequestError
    removed_endpoints: list[RemovedEndpoint]


class RouteChange(ResourceObject):
    """By which change an endpoint would have answered. The caller can set `setting`; `below` and
    `above` are the figure it would have had to beat."""

    cause: Cause
    text: str
    setting: str | None
    below: float | None
    above: float | None
    unit: str | None


class RouteEndpoint(ResourceObject):
    """An endpoint that was considered. Prices are USD per million tokens, in and out."""

    model: str
    endpoint_id: str
    verdict: Literal["chosen", "failed", "overtaken", "passed over", "in reserve", "removed"]
    place: int | None
    reason: str | None
    prices: list[float] | None
    share: float | None
    health: list[str]
    would_have_won: RouteChange | None


class HedgedAttempt(ResourceObject):
    """An attempt of a race. Tokens and cost (USD, at list price) are those of one that was
    cancelled, which the charge includes. What the winner used is the rest of the charge."""

    endpoint_id: str
    model: str
    result: Literal["won", "cancelled", "failed", "left"]
    tokens_prompt: int
    tokens_completion: int
    cost: UsdAmount


class RouteHedge(ResourceObject):
    """The race of a hedged request: the second attempt began `after_ms` after the first."""

    after_ms: int
    attempts: list[HedgedAttempt]


class RouteQueue(ResourceObject):
    """The waiting for a place at a full endpoint: its place in the queue when it came, counted from
    1, and how long it waited."""

    place: int
    waited_ms: int


class ClassifiedPrompt(ResourceObject):
    """What the classifier of a virtual router said. `model` is the one that it put first, null
    where the router chose. `generation_id` and `cost` (USD) are those of the decision, a request of
    its own in the books."""

    result: Literal["class", "unsure", "failed"]
    label: str | None
    confidence: float | None
    model: str | None
    error_type: str | None
    generation_id: str | None
    cost: UsdAmount
    took_ms: int


class RouteStay(ResourceObject):
    """Whether a conversation stayed with the endpoint that answered it last. Of the prompt,
    `cached_tokens` were expected in its cache, which is `age_s` old and lasts `lifetime_s`. That
    saves `saving`; without it the request costs `dearer` more there than at `other_endpoint_id`,
    which would have been first (USD)."""

    stays: bool
    reason: StayReason
    endpoint_id: str | None
    other_endpoint_id: str | None
    cached_tokens: int
    saving: UsdAmount
    dearer: UsdAmount
    age_s: float
    lifetime_s: float


class RouteObject(ResourceObject):
    """Why a request went where it went."""

    model_config = ConfigDict(title="GenerationRoute")

    id: str
    requested: list[str]
    models: list[str]
    strategy: str | None
    rule: str | None
    endpoints: list[RouteEndpoint]
    hedge: RouteHedge | None = Field(
        description="Where a second endpoint was asked beside the first; else null."
    )
    queue: RouteQueue | None = Field(description="Where it had to wait for a place; else null.")
    stay: RouteStay | None = Field(
        description="Where an endpoint had answered the conversation before; else null."
    )
    classifier: ClassifiedPrompt | None


class GenerationObject(ResourceObject):
    """The record of a generation."""

    model_config = ConfigDict(title="Generation")

    id: str
    request_id: str | None
    upstream_id: str | None
    created_at: datetime
    model: str
    provider_name: str | None
    router: str | None
    api_type: Literal["completions", "decisions", "embeddings"] | None
    app_id: str | None
    workspace_id: str | None
    preset_id: str | None
    session_id: str | None
    external_user: str | None
    user: str | None = Field(description="As it was sent, for the key that sent it; else null.")
    tags: dict[str, str] = Field(description="From `X-Tags`, `metadata` and `trace`.")
    origin: str
    http_referer: str | None
    user_agent: str | None
    data_region: Literal["global", "europe", "us"]
    streamed: bool | None
    cancelled: bool | None
    finish_reason: str | None
    native_finish_reason: str | None
    latency: _Milliseconds
    generation_time: _Milliseconds
    moderation_latency: _Milliseconds
    tokens_prompt: int | None
    tokens_completion: int | None
    native_tokens_prompt: int | None
    native_tokens_completion: int | None
    native_tokens_reasoning: int | None
    native_tokens_cached: int | None
    native_tokens_completion_images: int | None
    num_media_prompt: int | None
    num_media_completion: int | None
    num_input_audio_prompt: int | None
    num_search_results: int | None
    num_fetches: int | None
    web_search_engine: str | None
    service_tier: str | None
    is_byok: bool
    usage: _Charge
    total_cost: _Charge
    upstream_inference_cost: UsdAmount | None
    cache_discount: UsdAmount | None
    response_cache_source_id: str | None
    classifier: ClassifiedPrompt | None
    provider_responses: list[ProviderResponse] | None
    error: RequestError | None


def serialize_generation(
    row: Generation, *, key_id: int, failure: FailedRequest | None = None
) -> JsonObject:
    """The JSON of a `GenerationObject` for the key that asks for it; `failure` is its own."""
    detail, user = row.detail, row.external_user
    saved_nano = detail.get("cache_saved_nano")
    # The list price of what was got with the team's own credentials.
    own_nano = detail.get("own_cost_nano", row.upstream_cost_nano if row.is_byok else 0)
    # Providers keep the name of their search engine to themselves.
    engine = detail.get("search_engine") or ("native" if detail.get("web_searches") else None)
    return GenerationObject.from_row(
        row,
        request_id=detail.get("request_id"),
        router=detail.get("router"),
        app_id=detail.get("app"),
        external_user=None if user is None else hash_user(row.account_id, user),
        user=user if row.api_key_id == key_id else None,
        tags=detail.get("tags", {}),
        origin=detail.get("origin", ""),
        http_referer=detail.get("http_referer"),
        user_agent=detail.get("user_agent"),
        data_region=detail.get("region", "global"),
        latency=row.latency_ms,
        generation_time=row.generation_time_ms,
        moderation_latency=detail.get("moderation_latency_ms"),
        native_tokens_prompt=row.tokens_prompt,
        native_tokens_completion=row.tokens_completion,
        native_tokens_reasoning=row.tokens_reasoning,
        native_tokens_cached=row.tokens_cached,
        native_tokens_completion_images=detail.get("completion_images", 0),
        num_media_prompt=detail.get("media_parts", 0),
        num_media_completion=None,
        num_input_audio_prompt=detail.get("audio_parts", 0),
        num_search_results=detail.get("search_results"),
        num_fetches=detail.get("fetches"),
        web_search_engine=engine,
        usage=usd(row.charge_nano),
        total_cost=usd(row.charge_nano),
        upstream_inference_cost=usd(own_nano),
        cache_discount=None if saved_nano is None else usd(saved_nano),
        response_cache_source_id=detail.get("response_cache_source_id"),
        classifier=_serialize_classified(detail.get("classifier")),
        provider_responses=[
            {name: value for name, value in attempt.items() if name not in _OF_OPERATORS}
            for attempt in row.attempts
        ],
        error=_describe_failure(row, failure),
    )


def _describe_failure(row: Generation, failure: FailedRequest | None) -> JsonObject | None:
    """The error of a generation. It has less in it until the failure's own record is there. That
    record may be the only sign of an error if the answer could not be booked in time."""
    if failure is not None:
        return _serialize_error(failure)
    if row.error_type is None:
        return None
    return {"code": row.status, "error_type": row.error_type, "reason": row.error_type}


def _serialize_error(row: FailedRequest) -> JsonObject:
    return {
        "code": row.status,
        "error_type": row.error_type,
        "reason": row.reason,
        "message": row.text,
        "metadata": row.detail,
    }


def serialize_refusal(row: FailedRequest) -> JsonObject:
    """The JSON of a `RefusedRequestObject`."""
    return RefusedRequestObject.from_row(
        row,
        id=None,
        created_at=row.at,
        model=row.requested_model,
        duration=row.duration_ms,
        total_cost=0,
        tags=row.tags or {},
        error=_serialize_error(row),
        removed_endpoints=[
            {"model": each.model, "endpoint_id": each.tag, "removed_by": each.why}
            for each, _ in _read_verdicts(_read_trace(row.plan))
            if each.verdict == REMOVED
        ],
    )


def serialize_route(given_id: str, trace_text: str) -> JsonObject:
    """The JSON of a `RouteObject`; without endpoints where nothing was planned, or where the trace
    is of another version."""
    trace = _read_trace(trace_text)
    hedge: JsonObject | None = trace.get("hedge")
    if hedge is not None:
        attempts = [{**each, "cost": usd(each["cost_nano"])} for each in hedge["attempts"]]
        for each in attempts:
            del each["cost_nano"]
        hedge = {"after_ms": hedge["after_ms"], "attempts": attempts}
    return RouteObject.from_row(
        None,
        id=given_id,
        requested=trace.get("requested", []),
        models=trace.get("models", []),
        strategy=trace.get("strategy"),
        rule=trace.get("rule"),
        endpoints=[
            RouteEndpoint.from_row(
                row,
                endpoint_id=row.tag,
                reason=row.why,
                prices=row.usd,
                share=row.weight,
                health=list(row.health),
                would_have_won=None if change is None else change._asdict(),
            )
            for row, change in _read_verdicts(trace)
        ],
        hedge=hedge,
        queue=trace.get("queue"),
        stay=_serialize_stay(trace),
        classifier=_serialize_classified(trace.get("classifier")),
    )


def _serialize_classified(data: JsonObject | None) -> JsonObject | None:
    if data is None:
        return None
    return ClassifiedPrompt.from_row(None, **data, cost=usd(data["cost_nano"]))


def _serialize_stay(trace: JsonObject) -> JsonObject | None:
    stay: JsonObject | None = trace.get("stay")
    if stay is None:
        return None
    tags, other = trace["tag"], stay["other"]
    return RouteStay.from_row(
        None,
        **{name: value for name, value in stay.items() if name in RouteStay.model_fields},
        endpoint_id=tags[trace["sticky"]],
        other_endpoint_id=None if other is None else tags[other],
        saving=usd(stay["saving_nano"]),
        dearer=usd(stay["dearer_nano"]),
    )


def _read_trace(text: str) -> JsonObject:
    """A stored trace; empty where there is none."""
    trace: JsonObject = loads(text.encode()) if text else {}
    return trace


def _read_verdicts(trace: JsonObject) -> list[RouteVerdict]:
    """Its endpoints; none where it is of another version."""
    try:
        return explain_route(trace) if trace.get("v") == VERSION else []
    except UNREADABLE:
        return []
