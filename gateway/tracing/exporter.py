"""Spans as OTLP's protobuf, over HTTP by OpenTelemetry's own exporter.

That makes a message of every attribute of every span, which took more than all else of a trace.
Most are alike from request to request, so each is made once.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

# Ids and amounts are others each time and leave again; models, providers and keys stay.
_ATTRIBUTES_KEPT: Final = 4_096
# Longer ones are prompts and answers.
_CHARS_KEPT: Final = 256
# Readers learn whether the parent is of another process.
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200


class CachingExporter(OTLPSpanExporter):
    """All spans of a batch are of one resource and one scope."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        data = encode_spans(spans).SerializeToString()
        # The exporter's own way out, with its retries; there is no public one that takes bytes.
        is_sent = self._client.export(data).success
        return SpanExportResult.SUCCESS if is_sent else SpanExportResult.FAILURE


def encode_spans(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """The message for a batch, which is not empty."""
    scope = spans[0].instrumentation_scope
    assert scope is not None
    of_scope = ScopeSpans(
        scope=InstrumentationScope(name=scope.name, version=scope.version or ""),
        spans=[_encode_span(span) for span in spans],
    )
    resource = Resource(attributes=_encode_attributes(spans[0].resource.attributes))
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[of_scope])]
    )


def _encode_span(span: ReadableSpan) -> Span:
    context, parent = span.context, span.parent
    assert context is not None
    status = span.status
    encoded = Span(
        **_encode_ids(context),
        name=span.name,
        # The SDK counts from 0, for its internal; the protocol has 0 for none.
        kind=span.kind.value + 1,  # type: ignore[arg-type]  # An enumeration of numbers.
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
        attributes=_encode_attributes(span.attributes),
        status=Status(code=status.status_code.value),  # type: ignore[arg-type]  # As above.
        flags=_build_flags(parent),
    )
    if parent is not None:
        encoded.parent_span_id = parent.span_id.to_bytes(8, "big")
    for event in span.events:
        encoded.events.add(
            name=event.name,
            time_unix_nano=event.timestamp,
            attributes=_encode_attributes(event.attributes),
        )
    for link in span.links:
        encoded.links.add(**_encode_ids(link.context), flags=_build_flags(link.context))
    return encoded


def _build_flags(context: SpanContext | None) -> int:
    return _HAS_REMOTE | (_IS_REMOTE if context is not None and context.is_remote else 0)


def _encode_ids(context: SpanContext) -> dict[str, Any]:
    return {
        "trace_id": context.trace_id.to_bytes(16, "big"),
        "span_id": context.span_id.to_bytes(8, "big"),
    }


def _encode_attributes(attributes: Mapping[str, Any] | None) -> Iterable[KeyValue]:
    return [_encode_attribute(*each) for each in (attributes or {}).items()]


def _encode_attribute(name: str, value: object) -> KeyValue:
    if isinstance(value, str) and len(value) > _CHARS_KEPT:
        return _build_attribute(name, value)
    return _load_attribute(name, tuple(value) if isinstance(value, list) else value)


def _build_attribute(name: str, value: object) -> KeyValue:
    return KeyValue(key=name, value=_build_value(value))


# 1, 1.0 and True are equal, and not the same.
_load_attribute = lru_cache(maxsize=_ATTRIBUTES_KEPT, typed=True)(_build_attribute)


def _build_value(value: Any) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[_build_value(each) for each in value]))
