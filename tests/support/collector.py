"""A collector of spans on loopback, which decodes what it is sent."""

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.local_site import LocalSite, Running, SiteHandler

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
PATIENCE_S = 120.0


@dataclass(frozen=True)
class SeenSpan:
    """One span as it was received; ids in hexadecimal, times in nanoseconds since 1970."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    links: list[tuple[str, str]]
    failed: bool
    resource: dict[str, Any]


@dataclass
class Collector(LocalSite):
    """`spans` it has been sent, with the `headers` (names in lower case) and `bodies` they came in.
    One that is `busy` answers nobody until it is let go."""

    spans: list[SeenSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    busy: bool = False

    def trace(self, trace_id: str, *, count: int) -> list[SeenSpan]:
        """The spans of a trace, by their beginning, once there are so many."""
        return self._wait(lambda: [each for each in self.spans if each.trace_id == trace_id], count)

    def of_request(self, request_id: str, *, count: int) -> list[SeenSpan]:
        """The spans of a request's trace, likewise."""
        (server,) = self._wait(
            lambda: [
                each
                for each in self.spans
                if each.attributes.get("gateway.request_id") == request_id
            ],
            1,
        )
        return self.trace(server.trace_id, count=count)

    def wait_for_name(self, name: str, *, count: int) -> list[SeenSpan]:
        """The spans of a name, likewise."""
        return self._wait(lambda: [each for each in self.spans if each.name == name], count)

    def _wait(self, find: Callable[[], list[SeenSpan]], count: int) -> list[SeenSpan]:
        until = time.monotonic() + PATIENCE_S
        while len(found := find()) < count:
            names = [each.name for each in self.spans]
            assert time.monotonic() < until, f"{len(found)} of {count} among {names}"
            time.sleep(0.05)
        return sorted(found, key=lambda each: (each.start_ns, -each.end_ns))


class _Handler(SiteHandler):
    site: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.site.busy:
            self.silence()
            return
        assert self.path == "/v1/traces"
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        self.site.headers.append({name.lower(): text for name, text in self.headers.items()})
        self.site.bodies.append(body)
        self.site.spans += _read_spans(ExportTraceServiceRequest.FromString(body))
        self.answer(b"", Content_Type="application/x-protobuf")


def serve_collector() -> Running[Collector]:
    return Running(Collector, _Handler)


def _read_spans(request: Any) -> list[SeenSpan]:
    return [
        SeenSpan(
            name=span.name,
            kind=KINDS[span.kind],
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=_read_attributes(span.attributes),
            events=[(event.name, _read_attributes(event.attributes)) for event in span.events],
            links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            failed=span.status.code == 2,
            resource=_read_attributes(group.resource.attributes),
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _read_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _read_value(pair.value) for pair in pairs}


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(each) for each in value.array_value.values]
    return getattr(value, kind)
