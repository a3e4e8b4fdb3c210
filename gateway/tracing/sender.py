"""Spans on their way to the collector: queued, sent in batches by OpenTelemetry's SDK, lost rather
than late."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gateway.tracing.exporter import CachingExporter
from gateway.tracing.spans import Span

log = logging.getLogger("gateway.traces")

QUEUE_MAX: Final = 4_096
# So many are encoded at once; it holds the event loop for less than 5 ms.
BATCH_MAX: Final = 128
SEND_EVERY_S: Final = 1.0
# A collector that is gone for long is one line a minute.
_LOG_EVERY_S: Final = 60.0
_KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_FAILED: Final = Status(StatusCode.ERROR)
_UNSET: Final = Status(StatusCode.UNSET)


class SpanSender:
    """`add` spans from any greenlet or thread; nothing waits. `sent` and `lost` count them, and
    each of `on_loss` is called with how many are lost.

    Its thread, a greenlet in web processes, sends them: make one after a fork.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        resource: Resource,
        version: str,
        queue_max: int = QUEUE_MAX,
        every_s: float = SEND_EVERY_S,
        on_loss: Sequence[Callable[[int], None]] = (),
    ) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("routing-gateway", version)
        self._queue_max = queue_max
        self._waiting = 0
        self._on_loss = on_loss
        self._logged_at: float | None = None
        self._lock = threading.Lock()
        self.sent = self.lost = 0
        self._processor = BatchSpanProcessor(
            _CountingExporter(exporter, self),
            max_queue_size=queue_max,
            schedule_delay_millis=every_s * 1000,
            max_export_batch_size=min(BATCH_MAX, queue_max),
        )

    def add(self, spans: Iterable[Span]) -> None:
        """Queue what has room; the rest is lost."""
        refused = 0
        for span in spans:
            with self._lock:
                has_room = self._waiting < self._queue_max
                self._waiting += has_room
            if has_room:
                self._processor.on_end(self._convert(span))
            else:
                refused += 1
        if refused:
            self._note_loss(refused, "the collector is too slow")

    def stop(self, within_s: float) -> None:
        """Send what is queued, for at most that long."""
        last = threading.Thread(target=self._processor.shutdown, name="traces", daemon=True)
        last.start()
        last.join(within_s)
        if self._waiting:
            self._note_loss(self._waiting, "the process ends")

    def note_batch(self, size: int, *, is_sent: bool) -> None:
        """A batch has left the queue, and the collector has it or not."""
        with self._lock:
            self._waiting -= size
            self.sent += size if is_sent else 0
        if not is_sent:
            self._note_loss(size, "the collector did not take them")

    def _note_loss(self, count: int, why: str) -> None:
        with self._lock:
            self.lost += count
        for note in self._on_loss:
            note(count)
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("%d spans are lost so far: %s", self.lost, why)

    def _convert(self, span: Span) -> ReadableSpan:
        # Spans are made after the fact, with ids that providers got long before. A tracer would
        # decide on both anew.
        trace_id = int(span.trace_id, 16)
        parent = None
        if span.parent_id:
            parent = _build_context(trace_id, span.parent_id, is_remote=span.is_parent_remote)
        return ReadableSpan(
            span.name,
            context=_build_context(trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes={n: value for n, value in span.attributes.items() if value is not None},
            events=[
                Event(event.name, event.attributes, timestamp=event.at_ns) for event in span.events
            ],
            links=[
                Link(_build_context(int(link.trace_id, 16), link.span_id, is_remote=True))
                for link in span.links
            ],
            kind=_KINDS[span.kind],
            status=_FAILED if span.failed else _UNSET,
            start_time=span.start_ns,
            end_time=max(span.start_ns, span.end_ns),
            instrumentation_scope=self._scope,
        )


def _build_context(trace_id: int, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote, _SAMPLED)


class _CountingExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter, sender: SpanSender) -> None:
        self._exporter, self._sender = exporter, sender

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self._sender.note_batch(len(spans), is_sent=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def build_sender(
    endpoint: str,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    compression: str,
    certificate: str,
    resource: Mapping[str, str],
    version: str,
    queue_max: int = QUEUE_MAX,
    on_loss: Sequence[Callable[[int], None]] = (),
) -> SpanSender:
    """A sender to the collector at `endpoint`, a URL without the path of traces."""
    # It says of each try and each batch what the sender's line says once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    exporter = CachingExporter(
        endpoint=f"{endpoint}/v1/traces",
        headers=dict(headers),
        timeout=timeout_s,
        compression=Compression.Gzip if compression == "gzip" else Compression.NoCompression,
        certificate_file=certificate or None,
    )
    return SpanSender(
        exporter,
        resource=Resource(dict(resource)),
        version=version,
        queue_max=queue_max,
        on_loss=on_loss,
    )
