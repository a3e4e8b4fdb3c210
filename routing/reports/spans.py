"""The spans of a request: its own, and those of its plan, hold, attempts, tools and settlement.
They are made once it has ended, so that it pays for none of them."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import orjson

from gateway.eventloop import yield_control
from gateway.http.request_id import TraceParent, begin_trace
from gateway.tracing.spans import (
    NS_PER_S,
    Attribute,
    Span,
    SpanEvent,
    SpanKind,
    build_span_id,
)
from routing.formats.caller import ToolActivity
from routing.reports.report import RequestReport
from routing.reports.span_attributes import describe_attempt, describe_content, has_first_token
from routing.selection.replay import UNREADABLE, read_names
from routing.serving.request.context import Attempt

log = logging.getLogger("gateway.traces")

# Of a long plan the rest is counted.
_CANDIDATES_MAX: Final = 32
_REMOVED_MAX: Final = 32
_NANO_PER_USD: Final = 1_000_000_000
_YIELD_EVERY: Final = 8
_PATHS: Final = {
    "chat": "/api/v1/chat/completions",
    "messages": "/api/v1/messages",
    "responses": "/api/v1/responses",
    "decisions": "/api/alpha/decisions",
    "systemone": "/api/v1/systemone",
    "embeddings": "/api/v1/embeddings",
}


class SpanWriter:
    """`write` the spans of those requests of a batch that are sampled. `send` must not wait."""

    def __init__(self, send: Callable[[Sequence[Span]], None]) -> None:
        self._send = send

    def write(self, reports: Sequence[RequestReport]) -> None:
        made = 0
        for report in reports:
            trace = report.identity.trace if report.identity is not None else begin_trace()
            if trace is not None and trace.is_sampled:
                self._send(list(_RequestSpans(report, trace).build()))
                # So many spans hold the event loop for a millisecond or two.
                made += 1
                if not made % _YIELD_EVERY:
                    yield_control()


class _Period(NamedTuple):
    """Monotonic seconds."""

    began: float
    ended: float


class _RequestSpans:
    def __init__(self, report: RequestReport, trace: TraceParent) -> None:
        self._report = report
        self._trace = trace
        self._server_id = build_span_id()
        # What turns monotonic seconds into nanoseconds since 1970.
        self._offset_ns = int(report.ended_at.timestamp() * NS_PER_S - report.ended * NS_PER_S)

    def build(self) -> Iterator[Span]:
        report, phases = self._report, self._report.phases
        yield self._build_server()
        text = report.record["trace"] if report.record else report.plan
        plan = orjson.loads(text) if text else None
        if plan or phases.planned is not None:
            yield self._build_plan(plan)
        if phases.hold_asked is not None:
            yield self._build_hold(phases.hold_asked)
        for attempt in (*report.attempts, *chain.from_iterable(report.submodel_attempts)):
            yield self._build_attempt(attempt)
        for call in report.tool_calls:
            if call.started is not None:
                yield self._build_tool_call(call, call.started)
        if report.settlement is not None:
            yield self._build_settlement()

    def _build_span(
        self,
        name: str,
        kind: SpanKind,
        period: _Period,
        attributes: dict[str, Attribute | None],
        *,
        events: Sequence[SpanEvent] = (),
        span_id: str | None = None,
        failed: bool = False,
    ) -> Span:
        """A child of the request's span."""
        return Span(
            name,
            kind,
            self._trace.trace_id,
            span_id or build_span_id(),
            self._server_id,
            self._to_ns(period.began),
            self._to_ns(period.ended),
            attributes,
            events,
            failed=failed,
        )

    def _to_ns(self, moment: float) -> int:
        return self._offset_ns + int(moment * NS_PER_S)

    # --- The request ----------------------------------------------------------------------------

    def _build_server(self) -> Span:
        report, error, record = self._report, self._report.error, self._report.record or {}
        began = report.phases.received or report.started
        ended = report.ended
        if report.settlement is not None and report.settlement.finished is not None:
            ended = max(ended, report.settlement.finished)
        path, caller = _PATHS.get(report.format, report.format), report.caller
        attributes: dict[str, Attribute | None] = {
            "http.request.method": "POST",
            "http.route": path,
            "http.response.status_code": report.status,
            "gateway.request_id": report.identity.id if report.identity else None,
            "gateway.generation_id": report.generation_id,
            "gateway.streamed": report.streamed or None,
            "gateway.repeated": report.is_repeat or None,
            "gateway.workspace_id": str(caller.workspace_id) if caller else None,
            "gateway.key": caller.key_id if caller else None,
            "gen_ai.request.model": report.requested_model,
            "error.type": error.error_type if error else None,
            "gateway.refusal_reason": error.reason if error else None,
        }
        if record:
            finish = record["finish_reason"]
            attributes |= {
                "gen_ai.response.model": record["model"],
                "gen_ai.response.finish_reasons": [finish] if finish else None,
                "gen_ai.usage.input_tokens": record["tokens_prompt"],
                "gen_ai.usage.output_tokens": record["tokens_completion"],
                "gen_ai.conversation.id": record["session_id"],
                "gateway.cancelled": record["cancelled"] or None,
                "gateway.charge_usd": record["charge_nano"] / _NANO_PER_USD,
                "gateway.cost_usd": record["upstream_cost_nano"] / _NANO_PER_USD,
            }
        # What is collected for a destination alone is not for the operator's collector.
        if report.content is not None and report.content.is_logged:
            attributes |= describe_content(report.content)
        return Span(
            f"POST {path}",
            "server",
            self._trace.trace_id,
            self._server_id,
            self._trace.span_id,
            self._to_ns(began),
            self._to_ns(ended),
            attributes,
            # What its caller did wrong is no fault of a server's.
            failed=report.status >= 500,
            is_parent_remote=True,
        )

    # --- The plan -------------------------------------------------------------------------------

    def _build_plan(self, plan: object) -> Span:
        report, phases = self._report, self._report.phases
        ended = report.ended if phases.planned is None else phases.planned
        began = phases.planning_began or report.started
        attributes: dict[str, Attribute | None] = {}
        events: list[SpanEvent] = []
        if plan:
            try:
                attributes, events = self._describe_plan(plan, self._to_ns(ended))
            except UNREADABLE as error:
                log.warning("The plan of a request cannot be read: %s", type(error).__name__)
        failed_step = attributes.get("gateway.plan.failed_step")
        return self._build_span(
            "plan",
            "internal",
            _Period(min(began, ended), ended),
            attributes,
            events=events,
            failed=failed_step is not None,
        )

    def _describe_plan(
        self, plan: Any, at_ns: int
    ) -> tuple[dict[str, Attribute | None], list[SpanEvent]]:
        names, removed = read_names(plan)
        candidates = [f"{model} {tag}" for model, tag in names]
        attributes: dict[str, Attribute | None] = {
            "gateway.plan.strategy": plan["strategy"],
            "gateway.plan.rule": plan["rule"],
            "gateway.plan.candidates": candidates[:_CANDIDATES_MAX],
            # Where they are not all named.
            "gateway.plan.candidates_count": _count_beyond(candidates, _CANDIDATES_MAX),
            "gateway.plan.removed_count": _count_beyond(removed, _REMOVED_MAX),
            "gateway.plan.failed_step": plan.get("failed_step"),
        }
        events = [
            SpanEvent(
                "endpoint removed",
                at_ns,
                {
                    "gateway.model": model,
                    "gateway.endpoint": tag,
                    "gateway.plan.step": step or "",
                },
            )
            for model, tag, step in removed[:_REMOVED_MAX]
        ]
        if (stay := plan.get("stay")) is not None:
            name = "conversation stays" if stay["stays"] else "conversation moves"
            facts: dict[str, Attribute] = {
                "gateway.endpoint": plan["tag"][plan["sticky"]],
                "gateway.stay.reason": stay["reason"],
                "gateway.stay.cached_tokens": stay["cached_tokens"],
                "gateway.stay.saving_usd": stay["saving_nano"] / _NANO_PER_USD,
                "gateway.stay.dearer_usd": stay["dearer_nano"] / _NANO_PER_USD,
            }
            events.append(SpanEvent(name, at_ns, facts))
        return attributes, events

    # --- The money ------------------------------------------------------------------------------

    def _build_hold(self, asked: float) -> Span:
        """It ends when the first attempt begins; without an attempt it was refused."""
        report, error = self._report, self._report.error
        first = report.attempts[0].started if report.attempts else None
        amount_nano = report.record["hold_nano"] if report.record else None
        attributes: dict[str, Attribute | None] = {
            "gateway.hold_usd": None if amount_nano is None else amount_nano / _NANO_PER_USD,
            "error.type": error.error_type if error and first is None else None,
        }
        period = _Period(asked, report.ended if first is None else first)
        return self._build_span("hold", "internal", period, attributes, failed=first is None)

    def _build_settlement(self) -> Span:
        """A settlement that is not in the books yet ends now."""
        report, ticket = self._report, self._report.settlement
        assert ticket is not None
        attributes: dict[str, Attribute | None] = {"gateway.settled": ticket.outcome is True}
        ended = time.monotonic() if ticket.finished is None else ticket.finished
        failed = isinstance(ticket.outcome, Exception)
        period = _Period(report.ended, ended)
        return self._build_span("settle", "internal", period, attributes, failed=failed)

    # --- Providers and tools --------------------------------------------------------------------

    def _build_attempt(self, attempt: Attempt) -> Span:
        report = self._report
        attributes = describe_attempt(attempt)
        answers = [each for each in report.attempts if not each.is_cancelled]
        if report.record and answers and attempt is answers[-1]:
            finish = report.record["native_finish_reason"] or report.record["finish_reason"]
            attributes["gen_ai.response.finish_reasons"] = [finish] if finish else None
        events = []
        if has_first_token(attempt):
            assert attempt.first_token is not None
            events.append(SpanEvent("first token", self._to_ns(attempt.first_token)))
        ended = report.ended if attempt.ended is None else attempt.ended
        return self._build_span(
            f"chat {attempt.endpoint.upstream_model}",
            "client",
            _Period(attempt.started, ended),
            attributes,
            events=events,
            span_id=attempt.span_id,
            failed=attempt.failure is not None,
        )

    def _build_tool_call(self, call: ToolActivity, started: float) -> Span:
        attributes: dict[str, Attribute | None] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "extension",
            "gen_ai.tool.call.id": call.call_id,
            "gateway.tool": call.tool,
        }
        return self._build_span(
            f"execute_tool {call.name}",
            "internal",
            _Period(started, self._report.ended if call.ended is None else call.ended),
            attributes,
            failed=call.status == "failed",
        )


def _count_beyond(named: Sequence[object], most: int) -> int | None:
    return len(named) if len(named) > most else None
