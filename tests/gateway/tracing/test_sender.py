"""Spans that a collector does not take are lost, and counted; nobody waits for them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_as_the_sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gateway.tracing.exporter import encode_spans
from gateway.tracing.sender import SpanSender, build_sender
from gateway.tracing.spans import (
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    build_span_id,
    build_trace_id,
    is_sampled,
)
from tests.support.collector import Collector, serve_collector

MakeSender = Callable[..., SpanSender]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serve_collector() as site:
        yield site


@pytest.fixture
def make_sender(caplog: pytest.LogCaptureFixture) -> Iterator[MakeSender]:
    senders: list[SpanSender] = []

    def make(url: str, **options: Any) -> SpanSender:
        sender = build_sender(
            url,
            headers={},
            timeout_s=0.5,
            compression="gzip",
            certificate="",
            resource={"service.name": "tested"},
            version="1",
            **options,
        )
        senders.append(sender)
        return sender

    with caplog.at_level(logging.WARNING, "gateway.traces"):
        yield make
    for sender in senders:
        sender.stop(5)


def make_span(name: str = "work") -> Span:
    links = [SpanLink(build_trace_id(), build_span_id())]
    ids = (build_trace_id(), build_span_id(), "")
    return Span(name, "internal", *ids, 10**18, 10**18 + 5, {"a": 1, "none": None}, links=links)


def test_a_stop_sends_what_is_queued(collector: Collector, make_sender: MakeSender) -> None:
    sender, span = make_sender(collector.url), make_span()

    sender.add([span])
    sender.stop(10)

    (seen,) = collector.spans
    assert (seen.trace_id, seen.span_id, seen.parent_id) == (span.trace_id, span.span_id, "")
    assert (seen.start_ns, seen.end_ns) == (span.start_ns, span.end_ns)
    assert (seen.attributes, seen.links) == ({"a": 1}, [tuple(span.links[0])])
    assert (sender.sent, sender.lost) == (1, 0)


def test_what_a_silent_collector_leaves_no_room_for_is_lost(
    collector: Collector, make_sender: MakeSender, caplog: pytest.LogCaptureFixture
) -> None:
    collector.busy = True
    noted: list[int] = []
    sender = make_sender(collector.url, queue_max=10, on_loss=[noted.append])

    sender.add(make_span() for _ in range(30))

    assert (sender.lost, noted) == (20, [20])
    assert "20 spans are lost so far" in caplog.text
    sender.stop(10)
    assert (sender.sent, sender.lost) == (0, 30)


def test_a_collector_that_is_gone_loses_batches_with_one_line(
    make_sender: MakeSender, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_collector() as site:
        url = site.url
    sender = make_sender(url)

    sender.add(make_span() for _ in range(300))
    sender.stop(20)

    assert (sender.sent, sender.lost) == (0, 300)
    assert len(caplog.records) == 1


def test_spans_are_encoded_as_the_exporter_of_the_sdk_does() -> None:
    class Kept(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            kept.extend(spans)
            return SpanExportResult.SUCCESS

    kept: list[ReadableSpan] = []
    sender = SpanSender(Kept(), resource=Resource({"service.name": "tested"}), version="1")
    attributes: dict[str, Any] = {
        "text": "é" * 300,
        "flag": True,
        "one": 1,
        "float": 1.0,
        "list": ["a", "b"],
    }
    event = SpanEvent("first token", 10**18 + 1, {"gateway.model": "acme/small"})
    plain = make_span()._replace(attributes=attributes, events=[event], failed=True)
    kinds: tuple[SpanKind, ...] = ("internal", "server", "client", "producer", "consumer")
    child: dict[str, Any] = {"parent_id": build_span_id(), "is_parent_remote": True}

    sender.add([plain._replace(kind=kind, **child) for kind in kinds])
    sender.add([plain, plain._replace(attributes={"one": 1.0, "flag": 1})])
    sender.stop(10)

    assert len(kept) == 7
    assert encode_spans(kept) == encode_as_the_sdk(kept)


def test_a_share_of_traces_is_sampled_and_all_agree_which() -> None:
    ids = [build_trace_id() for _ in range(2_000)]

    sampled = {share: {each for each in ids if is_sampled(each, share)} for share in (0, 0.1, 0.5)}

    assert not sampled[0]
    assert 100 < len(sampled[0.1]) < 300
    assert sampled[0.1] < sampled[0.5]
    assert all(is_sampled(each, 1.0) for each in ids)
