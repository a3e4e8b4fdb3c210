"""Traces as spans of OpenTelemetry, in the JSON form of OTLP.

Names of attributes are those of its conventions for generative AI. Ids that the caller chose are
kept where they have the form of OpenTelemetry's, and hashed into it otherwise, so that equal ones
stay equal.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject, dumps
from routing.destinations.facts import MetadataGroups, TraceFacts, join_texts

SERVICE: Final = "routing-gateway"
# Keys of the caller's `trace` with a meaning of their own.
_KNOWN_KEYS: Final = frozenset(
    {"trace_id", "trace_name", "span_name", "generation_name", "parent_span_id"}
)
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2
_NANO: Final = 1_000_000_000
_HEX: Final = re.compile(r"[0-9a-f]+")
# Our names of formats in the words of the conventions.
_OPERATIONS: Final = {"decisions": "generate_content", "embeddings": "embeddings"}


class SpanIds(NamedTuple):
    """Where a generation's span stands: hexadecimal ids, `parent` "" for a root."""

    trace: str
    span: str
    parent: str


def find_ids(facts: TraceFacts) -> SpanIds:
    """The ids of the generation's own span. Its parent is the span called `span_name`, else the
    root called `trace_name`, else the caller's own span."""
    trace = facts.trace
    trace_id = _as_id(str(trace.get("trace_id") or facts.generation_id), 32)
    names = _list_wrappers(trace)
    parent = _wrapper_id(trace_id, names[-1]) if names else _caller_span(trace)
    return SpanIds(trace_id, _as_id(f"{facts.generation_id} span", 16), parent)


def generation_name(facts: TraceFacts) -> str:
    return str(facts.trace.get("generation_name") or f"chat {facts.model}")


def build_payload(
    traces: Sequence[TraceFacts], groups: MetadataGroups, extra: Mapping[str, str] | None = None
) -> JsonObject:
    """The body of an OTLP request. `extra` names further attributes by what they hold: `input`,
    `output`, `trace_name`, `session_id`."""
    spans: list[JsonObject] = []
    for facts in traces:
        ids, parent = find_ids(facts), _caller_span(facts.trace)
        for name in _list_wrappers(facts.trace):
            span_id = _wrapper_id(ids.trace, name)
            spot = SpanIds(ids.trace, span_id, parent)
            spans.append(_build_span(facts, spot, name, _INTERNAL, _list_identity(facts)))
            parent = span_id
        attributes = _list_attributes(facts, groups, extra or {})
        spans.append(_build_span(facts, ids, generation_name(facts), _CLIENT, attributes))
    resource = {"attributes": _as_attributes({"service.name": SERVICE})}
    scope = {"scope": {"name": SERVICE}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def empty_payload() -> JsonObject:
    """A request without spans, which receivers take or call bad, but only once they know us."""
    return {"resourceSpans": []}


def build_metadata(facts: TraceFacts, groups: MetadataGroups) -> JsonObject:
    """What the caller's `trace` adds, and the groups of metadata that are switched on."""
    metadata = {name: value for name, value in facts.trace.items() if name not in _KNOWN_KEYS}
    if groups.cost:
        metadata |= {
            "cost.charge_usd": facts.total_cost_usd,
            "cost.upstream_usd": facts.upstream_cost_nano / _NANO,
            "cost.is_byok": facts.is_byok,
        }
    if groups.cost_allocation:
        metadata |= {f"cost.{name}": value for name, value in facts.allocation.items()}
    if groups.identity:
        metadata |= {f"identity.{name}": value for name, value in facts.identity.items()}
    if groups.request_context:
        metadata |= {f"request.{name}": value for name, value in facts.context.items()}
    return {name: value for name, value in metadata.items() if value is not None}


def _build_span(
    facts: TraceFacts, ids: SpanIds, name: str, kind: int, attributes: JsonObject
) -> JsonObject:
    span: JsonObject = {
        "traceId": ids.trace,
        "spanId": ids.span,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(facts.started_ns),
        "endTimeUnixNano": str(facts.ended_ns),
        "attributes": _as_attributes(attributes),
        "status": {"code": _OK},
    }
    if ids.parent:
        span["parentSpanId"] = ids.parent
    if facts.error_type is not None:
        span["status"] = {"code": _ERROR, "message": facts.error_type}
    return span


def _list_identity(facts: TraceFacts) -> JsonObject:
    return {
        "user.id": facts.user,
        "session.id": facts.session_id,
        "trace.name": facts.trace.get("trace_name"),
    }


def _list_attributes(
    facts: TraceFacts, groups: MetadataGroups, extra: Mapping[str, str]
) -> JsonObject:
    first_s = None if facts.latency_ms is None else facts.latency_ms / 1000
    attributes = {
        "gen_ai.operation.name": _OPERATIONS.get(facts.api_type, "chat"),
        "gen_ai.provider.name": facts.provider,
        "gen_ai.system": facts.provider,
        "gen_ai.request.model": facts.requested_model,
        "gen_ai.response.model": facts.model,
        "gen_ai.response.id": facts.generation_id,
        "gen_ai.response.finish_reasons": [facts.finish_reason] if facts.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": first_s,
        "gen_ai.usage.input_tokens": facts.prompt_tokens,
        "gen_ai.usage.output_tokens": facts.completion_tokens,
        "gen_ai.usage.total_tokens": facts.prompt_tokens + facts.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": facts.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": facts.reasoning_tokens,
        "gen_ai.usage.cost": facts.total_cost_usd,
        "http.response.status_code": facts.status,
        "error.type": facts.error_type,
        **_list_identity(facts),
    }
    held: JsonObject = {
        "trace_name": facts.trace.get("trace_name"),
        "session_id": facts.session_id,
    }
    if facts.input is not None and facts.output is not None:
        messages, answer = _as_parts(facts.input), _as_parts([facts.output])
        attributes["gen_ai.input.messages"] = dumps(messages).decode()
        attributes["gen_ai.output.messages"] = dumps(answer).decode()
        held |= {"input": dumps(facts.input).decode(), "output": dumps(facts.output).decode()}
    attributes |= {name: held.get(what) for name, what in extra.items()}
    metadata = build_metadata(facts, groups)
    return attributes | {f"trace.metadata.{name}": value for name, value in metadata.items()}


def _as_parts(messages: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Chat messages as the conventions have them: each a role and its parts."""
    result = []
    for message in messages:
        parts: list[JsonObject] = []
        if text := join_texts([message]):
            is_result = message.get("role") == "tool"
            part: JsonObject = {"type": "text", "content": text}
            if is_result:
                called = message.get("tool_call_id")
                part = {"type": "tool_call_response", "id": called, "response": text}
            parts.append(part)
        if reasoning := message.get("reasoning"):
            parts.append({"type": "reasoning", "content": reasoning})
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            parts.append(
                {
                    "type": "tool_call",
                    "id": call.get("id"),
                    "name": function.get("name"),
                    "arguments": function.get("arguments"),
                }
            )
        result.append({"role": message.get("role", "user"), "parts": parts})
    return result


# --- Ids ------------------------------------------------------------------------------------------


def _list_wrappers(trace: Mapping[str, Any]) -> list[str]:
    """The names of the spans around the generation's, the outermost first. A caller who names his
    own span as the parent has the root himself."""
    names = [trace.get("span_name")]
    if not trace.get("parent_span_id"):
        names.insert(0, trace.get("trace_name"))
    return [str(name) for name in names if name]


def _wrapper_id(trace_id: str, name: str) -> str:
    return _as_id(f"{trace_id} {name}", 16)


def _caller_span(trace: Mapping[str, Any]) -> str:
    parent = trace.get("parent_span_id")
    return _as_id(str(parent), 16) if parent else ""


def _as_id(text: str, digits: int) -> str:
    """The text where it is an id already, also one with hyphens, else a hash of it."""
    plain = text.replace("-", "").lower()
    if len(plain) == digits and _HEX.fullmatch(plain) and plain.strip("0"):
        return plain
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:digits]


# --- Attributes -----------------------------------------------------------------------------------


def _as_attributes(values: Mapping[str, Any]) -> list[JsonObject]:
    """Attributes as OTLP writes them; those without a value are left out."""
    return [
        {"key": name, "value": _as_value(value)}
        for name, value in values.items()
        if value is not None
    ]


def _as_value(value: object) -> JsonObject:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
    return {"stringValue": dumps(value).decode()}
