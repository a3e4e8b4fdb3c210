"""PostHog: one `$ai_generation` event per generation, in a batch of its capture API."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from gateway.http.jsonio import JsonObject, format_time
from routing.destinations.config import DestinationConfig, Secret, Url
from routing.destinations.facts import MetadataGroups, TraceFacts
from routing.destinations.senders.interface import (
    TEST_HEADER,
    OutgoingRequest,
    Sender,
    json_request,
)
from routing.destinations.spans import build_metadata, find_ids, generation_name

_PATH: Final = "/batch/"
_NANO: Final = 1_000_000_000


class PosthogConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    endpoint: Url = "https://us.i.posthog.com"


def _build(
    config: PosthogConfig, traces: Sequence[TraceFacts], groups: MetadataGroups
) -> OutgoingRequest:
    events = [_build_event(facts, groups) for facts in traces]
    body = {"api_key": config.apiKey, "batch": events}
    return json_request(config.endpoint.rstrip("/") + _PATH, body)


def _build_test(config: PosthogConfig) -> OutgoingRequest:
    request = _build(config, [], MetadataGroups())
    return request._replace(headers=(*request.headers, TEST_HEADER))


def _build_event(facts: TraceFacts, groups: MetadataGroups) -> JsonObject:
    ids = find_ids(facts)
    # The caller's own come first: none of them replaces a figure.
    properties: JsonObject = {
        **build_metadata(facts, groups),
        # Whom an event is about; without a user nobody, so that no person is made of it.
        "distinct_id": facts.user or facts.session_id or facts.generation_id,
        "$process_person_profile": facts.user is not None,
        "$ai_trace_id": ids.trace,
        "$ai_span_id": ids.span,
        # Nothing else is sent of a trace: below a span of ours that is not there it would not show.
        "$ai_parent_id": facts.trace.get("parent_span_id"),
        "$ai_session_id": facts.session_id,
        "$ai_span_name": generation_name(facts),
        "$ai_model": facts.model,
        "$ai_provider": facts.provider,
        "$ai_input_tokens": facts.prompt_tokens,
        "$ai_output_tokens": facts.completion_tokens,
        "$ai_cache_read_input_tokens": facts.cached_tokens,
        "$ai_reasoning_tokens": facts.reasoning_tokens,
        "$ai_latency": (facts.ended_ns - facts.started_ns) / _NANO,
        "$ai_time_to_first_token": None if facts.latency_ms is None else facts.latency_ms / 1000,
        "$ai_http_status": facts.status,
        "$ai_is_error": facts.error_type is not None,
        "$ai_error": facts.error_type,
        "$ai_total_cost_usd": facts.total_cost_usd,
        "$ai_input": facts.input,
        "$ai_output_choices": None if facts.output is None else [facts.output],
    }
    return {
        "event": "$ai_generation",
        "timestamp": format_time(datetime.fromtimestamp(facts.ended_ns / _NANO, UTC)),
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


POSTHOG: Final[Sender[Any]] = Sender(PosthogConfig, _build, _build_test)
