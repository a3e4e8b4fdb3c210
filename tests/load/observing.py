"""What metrics and traces cost a request: gateways with one of them on beside one with neither.

All are loaded at the same time, so that whatever else the machine does slows each of them alike.
Traces are made of all requests: a tenth of that is what traces of a tenth cost, and noise counts a
tenth as well.

`python -m tests.load.observing SECONDS` measures the parts alone and prints an `Observing` as JSON.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tests.load.accounting import ProcessTree
from tests.load.apart import print_measured, timed_us
from tests.load.selecting import MODEL, chooser, rows_of
from tests.load.stand import Stand
from tests.load.targets import Target

if TYPE_CHECKING:
    from routing.reports.report import RequestReport

# As many reports as an observer gets at once.
_BATCH: Final = 100
SHARE: Final = 0.1
_SETTINGS: Final[dict[str, dict[str, str]]] = {
    "plain": {"METRICS_BIND": ""},
    "metrics": {"METRICS_BIND": "127.0.0.1:0"},
    "traces": {"METRICS_BIND": "", "OTEL_TRACES_SAMPLER_ARG": "1"},
}


@dataclass(frozen=True)
class Observing:
    """Microseconds of CPU for one request: its metrics; what is done for traces where there are
    none; and its trace, where it has one."""

    metrics_us: float
    untraced_us: float
    traced_us: float


@contextmanager
def observed_gateways(
    stand: Stand, target: Target
) -> Iterator[dict[str, tuple[Target, ProcessTree]]]:
    """Gateways on the same stores: `plain` has neither, `metrics` and `traces` one of them. What to
    ask of each, and its processes. The upstream takes spans as it takes everything."""
    with ExitStack() as ends:
        found = {}
        for name, settings in _SETTINGS.items():
            collector = {"OTEL_EXPORTER_OTLP_ENDPOINT": stand.upstream_url}
            more = collector if name == "traces" else {}
            server = stand.new_gateway(name, settings | more)
            ends.callback(server.stop)
            server.start()
            url = f"{server.base_url}/chat/completions"
            found[name] = Target(url, target.key, target.body), ProcessTree(server.pid)
        yield found


def build_reports(*, traced: bool) -> list["RequestReport"]:
    """A batch of plain answers, as the bench's load has them."""
    import orjson

    from gateway.http.request_id import RequestIdentity, TraceParent
    from routing.catalogue.assembly import assemble
    from routing.metering.cost import Cost
    from routing.metering.usage import Usage
    from routing.reports.report import Phases, RequestReport
    from routing.serving.request.context import Attempt
    from tests.routing.callers import CALLER

    snapshot = assemble(rows_of(0, 0))
    endpoint = snapshot.models[MODEL].endpoints[0]
    usage = Usage(prompt_tokens=12, completion_tokens=5)
    priced = usage, Cost(4400, 1200, 3200)
    attempt = Attempt(endpoint, None, 2.0, 200, 2.1, 2.1, priced=priced, span_id="00f067aa0ba902b7")
    record = {
        **dict.fromkeys(("tokens_reasoning", "tokens_cached", "charge_nano", "hold_nano"), 0),
        **dict.fromkeys(("session_id", "native_finish_reason"), None),
        "model": MODEL,
        "provider_name": endpoint.provider.name,
        "finish_reason": "stop",
        "tokens_prompt": 12,
        "tokens_completion": 5,
        "upstream_cost_nano": 4400,
        "cancelled": False,
        "latency_ms": 100,
        "generation_time_ms": 100,
        "trace": orjson.dumps(chooser(snapshot, MODEL)()).decode(),
    }
    trace = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "", "01" if traced else "00")
    report = RequestReport(
        ended_at=datetime.now(UTC),
        started=1.0,
        ended=2.2,
        identity=RequestIdentity("req-1", trace),
        caller=CALLER,
        format="chat",
        requested_model=MODEL,
        streamed=False,
        status=200,
        generation_id="gen-1",
        record=record,
        attempts=[attempt],
        phases=Phases(1.0, 1.1, 1.2, 1.3),
    )
    return [report] * _BATCH


def _measure_untraced(seconds: float) -> float:
    """The steps of a request whose trace nobody wants, in its own path."""
    from gateway.http.request_id import RequestIdentity, begin_trace, read_traceparent
    from routing.reports.report import read_phases

    progress: Any = SimpleNamespace(
        received=1.0, planning_began=1.1, hold_asked=1.3, context=SimpleNamespace(started=1.2)
    )

    def step() -> None:
        identity = RequestIdentity("req-1", read_traceparent(None) or begin_trace())
        assert identity.trace is None
        read_phases(progress)

    return timed_us(step, seconds=seconds)


def _measure_traced(seconds: float) -> float:
    """From a report to the bytes for the collector, in whatever thread."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    from gateway.tracing.exporter import encode_spans
    from gateway.tracing.sender import SpanSender
    from routing.reports.spans import SpanWriter

    class Encoder(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    reports = build_reports(traced=True)
    sender = SpanSender(Encoder(), resource=Resource({}), version="1", every_s=0.001)
    writer, queued = SpanWriter(sender.add), 0

    def write() -> None:
        nonlocal queued
        writer.write(reports)
        queued += 4 * len(reports)
        while sender.sent + sender.lost < queued:
            time.sleep(0.001)

    one_us = timed_us(write, seconds=seconds, batch=1) / len(reports)
    assert not sender.lost, sender.lost
    sender.stop(5)
    return one_us


def measure_observing(seconds: float) -> Observing:
    from routing.monitoring.requests import RequestMetrics

    reports, part_s = build_reports(traced=False), seconds / 3
    metrics = RequestMetrics(lambda: [MODEL])

    def count() -> None:
        metrics.observe(reports)
        metrics.write()

    count()
    metrics_us = timed_us(count, seconds=part_s, batch=1)
    return Observing(metrics_us / len(reports), _measure_untraced(part_s), _measure_traced(part_s))


if __name__ == "__main__":
    print_measured(measure_observing)
