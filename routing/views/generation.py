"""GET /generation: the record of one generation."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_counted
from gateway.database.db import Lane, run_queries
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time, usd
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from routing.entities.end_users import hash_user
from routing.metering.models import Generation
from routing.views.openapi.generation_description import describe_generation


class GenerationViewSet(LeanViewSet):
    """A caller sees the generations of its own account; anybody else's id is not found."""

    @describe_generation
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        wanted = request.GET.get("id", "")
        if not wanted:
            issue = Issue("id", "Invalid input: expected string, received undefined")
            raise SchemaInvalid([issue])
        found = run_queries(Lane.READ, lambda: _find(wanted, caller.account_id))
        if found is None:
            raise NotFound("Generation not found")
        return json_response({"data": generation_object(found)})


def _find(wanted: str, account_id: Any) -> Generation | None:
    if "\x00" in wanted:
        return None
    rows = Generation.objects.filter(pk=wanted, account_id=account_id, lost=False)
    return rows.defer("trace").first()


def generation_object(row: Generation) -> JsonObject:
    """The JSON of a `Generation`: every field is there, null where there is no value."""
    detail = row.detail
    user = row.external_user
    return {
        "id": row.pk,
        "request_id": None,
        "upstream_id": row.upstream_id,
        "created_at": format_time(row.created_at),
        "model": row.model,
        "provider_name": row.provider_name,
        "router": detail.get("router"),
        "api_type": row.api_type,
        "app_id": detail.get("app"),
        "workspace_id": str(row.workspace_id),
        "preset_id": row.preset_id,
        "session_id": row.session_id,
        "external_user": None if user is None else hash_user(row.account_id, user),
        "origin": detail.get("origin", ""),
        "http_referer": detail.get("http_referer"),
        "user_agent": detail.get("user_agent"),
        "data_region": detail.get("region", "global"),
        "streamed": row.streamed,
        "cancelled": row.cancelled,
        "finish_reason": row.finish_reason,
        "native_finish_reason": row.native_finish_reason,
        "latency": row.latency_ms,
        "generation_time": row.generation_time_ms,
        "moderation_latency": detail.get("moderation_latency_ms"),
        "tokens_prompt": row.tokens_prompt,
        "tokens_completion": row.tokens_completion,
        "native_tokens_prompt": row.tokens_prompt,
        "native_tokens_completion": row.tokens_completion,
        "native_tokens_reasoning": row.tokens_reasoning,
        "native_tokens_cached": row.tokens_cached,
        "native_tokens_completion_images": detail.get("completion_images", 0),
        "num_media_prompt": detail.get("media_parts", 0),
        "num_media_completion": None,
        "num_input_audio_prompt": detail.get("audio_parts", 0),
        "num_search_results": detail.get("search_results"),
        "num_fetches": detail.get("fetches"),
        "web_search_engine": _search_engine(detail),
        "service_tier": row.service_tier,
        "is_byok": row.is_byok,
        "usage": usd(row.charge_nano),
        "total_cost": usd(row.charge_nano),
        "upstream_inference_cost": usd(_own_cost_nano(row)),
        "cache_discount": _usd_or_none(detail.get("cache_saved_nano")),
        "response_cache_source_id": detail.get("response_cache_source_id"),
        "provider_responses": [_response(attempt) for attempt in row.attempts],
    }


def _own_cost_nano(row: Generation) -> int:
    """The list price of what was got with the team's own credentials."""
    of_all = row.upstream_cost_nano if row.is_byok else 0
    own_nano: int = row.detail.get("own_cost_nano", of_all)
    return own_nano


def _search_engine(detail: JsonObject) -> str | None:
    """The one the gateway searched with; providers keep theirs to themselves."""
    own: str | None = detail.get("search_engine")
    return own or ("native" if detail.get("web_searches") else None)


def _usd_or_none(amount_nano: int | None) -> Any:
    return None if amount_nano is None else usd(amount_nano)


def _response(attempt: JsonObject) -> JsonObject:
    return {name: value for name, value in attempt.items() if name != "error_type"}
