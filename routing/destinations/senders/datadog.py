"""Datadog's LLM Observability: spans in the JSON of its own HTTP API."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from gateway.http.jsonio import JsonObject
from routing.destinations.config import DestinationConfig, Secret, Url, Word
from routing.destinations.facts import MetadataGroups, TraceFacts, join_texts
from routing.destinations.senders.interface import (
    TEST_HEADER,
    OutgoingRequest,
    Sender,
    json_request,
)
from routing.destinations.spans import build_metadata, find_ids, generation_name

_PATH: Final = "/api/intake/llm-obs/v1/trace/spans"
# How Datadog calls the parent of a root.
_NO_PARENT: Final = "undefined"


class DatadogConfig(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"apiKey"})

    apiKey: Secret
    mlApp: Word
    url: Url = "https://api.datadoghq.com"


def _build(
    config: DatadogConfig, traces: Sequence[TraceFacts], groups: MetadataGroups
) -> OutgoingRequest:
    spans = [_build_span(facts, groups) for facts in traces]
    attributes = {"ml_app": config.mlApp, "spans": spans}
    body = {"data": {"type": "span", "attributes": attributes}}
    return json_request(config.url.rstrip("/") + _PATH, body, {"DD-API-KEY": config.apiKey})


def _build_test(config: DatadogConfig) -> OutgoingRequest:
    request = _build(config, [], MetadataGroups())
    return request._replace(headers=(*request.headers, TEST_HEADER))


def _build_span(facts: TraceFacts, groups: MetadataGroups) -> JsonObject:
    ids = find_ids(facts)
    meta: JsonObject = {
        "kind": "llm",
        "metadata": {
            # The caller's own come first: none of them replaces what is known here.
            **build_metadata(facts, groups),
            "model_name": facts.model,
            "model_provider": facts.provider,
            "finish_reason": facts.finish_reason,
        },
    }
    if facts.input is not None and facts.output is not None:
        meta["input"] = {"messages": _as_messages(facts.input)}
        meta["output"] = {"messages": _as_messages([facts.output])}
    if facts.error_type is not None:
        meta["error"] = {"type": facts.error_type, "message": f"status {facts.status}"}
    metrics: JsonObject = {
        "input_tokens": facts.prompt_tokens,
        "output_tokens": facts.completion_tokens,
        "total_tokens": facts.prompt_tokens + facts.completion_tokens,
        "cache_read_input_tokens": facts.cached_tokens,
        "total_cost": facts.total_cost_usd,
    }
    if facts.latency_ms is not None:
        metrics["time_to_first_token"] = facts.latency_ms / 1000
    span: JsonObject = {
        "name": generation_name(facts),
        "trace_id": ids.trace,
        "span_id": ids.span,
        "parent_id": str(facts.trace.get("parent_span_id") or _NO_PARENT),
        "start_ns": facts.started_ns,
        "duration": facts.ended_ns - facts.started_ns,
        "status": "ok" if facts.error_type is None else "error",
        "meta": meta,
        "metrics": metrics,
        "tags": [f"user_id:{facts.user}"] if facts.user else [],
    }
    if facts.session_id is not None:
        span["session_id"] = facts.session_id
    return span


def _as_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    return [
        {"role": message.get("role", "user"), "content": join_texts([message])}
        for message in messages
    ]


DATADOG: Final[Sender[Any]] = Sender(DatadogConfig, _build, _build_test)
