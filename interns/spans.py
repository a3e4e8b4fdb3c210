"""Spans of interns: turns of chats, and jobs with the message that asked for each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gateway.http.request_id import begin_trace, get_identity, read_traceparent
from gateway.live_settings import settings
from gateway.tracing.open_span import OpenSpan
from gateway.tracing.spans import Attribute, SpanKind, SpanLink
from interns.chat.runs import RunLease
from interns.leases import InternLease
from interns.models import Intern, Status
from interns.runtime.driver import InternUsage

HEADER: Final = "traceparent"
# A caller who hangs up is no failure.
_GOOD_ENDS: Final = frozenset({"completed", "question", "client_closed_request"})


def begin_span(name: str, kind: SpanKind) -> OpenSpan | None:
    """A span of the request under way, else of a trace of its own. None where it is not sampled."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    identity = get_identity()
    trace = begin_trace() if identity is None else identity.trace
    if trace is None or not trace.is_sampled:
        return None
    return OpenSpan(name, kind, trace_id=trace.trace_id, parent_id=trace.span_id)


@contextmanager
def trace_publishing(lease: InternLease) -> Iterator[dict[str, str]]:
    """The span of a message to the workers; yields the headers that lead the job to it."""
    span = begin_span(f"publish {lease.kind}", "producer")
    failed = True
    try:
        yield {} if span is None else {HEADER: span.traceparent}
        failed = False
    finally:
        if span is not None:
            span.end(_describe(lease), failed=failed)


@contextmanager
def trace_job(lease: InternLease, headers: Mapping[str, Any] | None) -> Iterator[None]:
    """The span of a job, in a trace of its own that is linked to the message with these headers."""
    span = _begin_job(lease, headers or {})
    try:
        yield
    except BaseException:
        if span is not None:
            span.end(_describe(lease), failed=True)
        raise
    if span is not None:
        row = Intern.objects.filter(pk=lease.intern_id).values("status", "last_failure_message")
        intern: Mapping[str, Any] = row.first() or {}
        failed = intern.get("status") == Status.FAILED
        # The code alone: the sentence behind it may be the runtime's.
        code = str(intern.get("last_failure_message") or "").partition(":")[0]
        outcome = {"gateway.intern.status": intern.get("status"), "error.type": code or None}
        span.end({**_describe(lease), **outcome}, failed=failed)


def _begin_job(lease: InternLease, headers: Mapping[str, Any]) -> OpenSpan | None:
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    message = read_traceparent(str(headers.get(HEADER, "")))
    own = begin_trace()
    if own is None or not (own if message is None else message).is_sampled:
        return None
    links = () if message is None else (SpanLink(message.trace_id, message.span_id),)
    return OpenSpan(f"intern {lease.kind}", "consumer", trace_id=own.trace_id, links=links)


def end_turn(span: OpenSpan, lease: RunLease, outcome: str, usage: InternUsage | None) -> None:
    """`outcome` is `completed`, `question` or why the turn failed."""
    tokens: Mapping[str, Any] = usage or {}
    attributes: dict[str, Attribute | None] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": str(lease.intern_id),
        "gateway.intern.run_id": str(lease.run_id),
        "gateway.intern.outcome": outcome,
        "gen_ai.usage.input_tokens": tokens.get("prompt_tokens"),
        "gen_ai.usage.output_tokens": tokens.get("completion_tokens"),
        "gateway.cost_usd": tokens.get("cost"),
    }
    span.end(attributes, failed=outcome not in _GOOD_ENDS)


def _describe(lease: InternLease) -> dict[str, str | None]:
    return {
        "gateway.intern.id": str(lease.intern_id),
        "gateway.intern.operation_id": str(lease.operation_id),
        "gateway.intern.job": lease.kind,
    }
