"""From reports of ended requests to messages for the workers that deliver them.

A report costs its request nothing: it is observed off the callers' path, and what does not fit is
dropped and counted.
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from gateway.database.db import DATABASE_GONE
from gateway.eventloop import run_in_thread
from gateway.http.jsonio import JsonObject, loads
from routing.destinations.facts import TraceFacts, strip_media, trim_trace
from routing.destinations.queueing import (
    LOST_TRACES,
    LossReason,
    Message,
    Publish,
    build_messages,
    publish_messages,
)
from routing.destinations.selection import (
    DestinationSummary,
    WorkspaceDestinations,
    workspace_destinations,
)
from routing.history.content_draft import ContentDraft, is_sampled
from routing.history.contents import trim_value
from routing.reports.report import RequestReport
from routing.statistics.periodic import PeriodicWork

log = logging.getLogger("routing.destinations")

EVERY_S: Final = 0.5
REPORTS_MAX: Final = 2_000
_AT_ONCE: Final = 100
_LOG_EVERY_S: Final = 10.0
_REASONS: Final[tuple[LossReason, ...]] = ("crowd", "database", "broker", "queue_full")
_NANO: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Broadcaster:
    """`observe` reports, and `send` what destinations want of them."""

    def __init__(
        self,
        destinations: WorkspaceDestinations = workspace_destinations,
        publish: Publish = publish_messages,
    ) -> None:
        self._destinations = destinations
        self._publish = publish
        self._queue: deque[RequestReport] = deque()
        self._work = PeriodicWork("destinations", self.send, every_s=EVERY_S, log=log)
        self._logged_at = float("-inf")
        self.dropped = 0

    def observe(self, reports: Sequence[RequestReport]) -> None:
        """Keep those of workspaces that broadcast, for the next round."""
        for report in reports:
            if report.record is None or report.caller is None or not report.caller.broadcasts:
                continue
            if len(self._queue) >= REPORTS_MAX:
                self._drop(1, "crowd", "too many at once")
                continue
            self._queue.append(report)

    def start(self) -> None:
        """Send from now on; call after a fork."""
        for reason in _REASONS:
            # There before the first is lost, which would be no increase.
            LOST_TRACES.add(0, reason)
        self._work.start()

    def stop(self, within_s: float) -> None:
        """Send what is there, if that can be done in time."""
        self._work.finish(within_s=within_s)

    def send(self) -> None:
        """Put all that waits into the workers' queue."""
        while self._queue:
            size = min(_AT_ONCE, len(self._queue))
            reports = [self._queue.popleft() for _ in range(size)]
            try:
                by_workspace: dict[UUID, list[RequestReport]] = {}
                for report in reports:
                    if report.caller is not None and report.caller.workspace_id is not None:
                        by_workspace.setdefault(report.caller.workspace_id, []).append(report)
                messages: list[Message] = []
                for workspace_id, own in by_workspace.items():
                    if found := self._destinations.load(workspace_id):
                        messages += run_in_thread(partial(_pack, workspace_id, own, found))
                left = self._publish(messages) if messages else []
            except DATABASE_GONE as error:
                self._drop(size, "database", f"the database is gone: {type(error).__name__}")
                continue
            except Exception as error:  # noqa: BLE001 - Whatever the client raises, nothing was sent.
                self._drop(size, "broker", f"the queue cannot be reached: {type(error).__name__}")
                continue
            if left:
                count = sum(each.traces for each in left)
                self._drop(count, "queue_full", "the workspace's queues are full")

    def _drop(self, count: int, reason: LossReason, why: str) -> None:
        self.dropped += count
        LOST_TRACES.add(count, reason)
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("Traces are not sent, %d so far: %s", self.dropped, why)


broadcaster: Final = Broadcaster()


def _pack(
    workspace_id: UUID,
    reports: Sequence[RequestReport],
    destinations: Sequence[DestinationSummary],
) -> list[Message]:
    facts = [(report, build_facts(report)) for report in reports]
    return [
        message
        for destination in destinations
        for message in build_messages(
            workspace_id,
            destination.id,
            [
                each if destination.wants_content else each.without_content()
                for report, each in facts
                if is_wanted(destination, report)
            ],
        )
    ]


def is_wanted(destination: DestinationSummary, report: RequestReport) -> bool:
    """Whether the generation's region and key are the destination's, and it is in its sample."""
    assert report.caller is not None
    assert report.record is not None
    if report.region not in destination.regions:
        return False
    if destination.keys is not None and report.caller.key_id not in destination.keys:
        return False
    identity = report.record["session_id"] or report.generation_id
    return is_sampled(str(identity), destination.sampling_rate)


def build_facts(report: RequestReport) -> TraceFacts:
    """What destinations get of a generation."""
    record, caller = report.record, report.caller
    assert record is not None
    assert caller is not None
    duration = timedelta(seconds=max(0.0, report.ended - report.started))
    prompt, answer = _read_content(report.content)
    return TraceFacts(
        generation_id=report.generation_id or "",
        started_ns=_as_ns(report.ended_at - duration),
        ended_ns=_as_ns(report.ended_at),
        api_type=record["api_type"],
        model=record["model"],
        requested_model=report.requested_model,
        provider=record["provider_name"],
        status=report.status,
        error_type=record["error_type"],
        finish_reason=record["finish_reason"],
        prompt_tokens=record["tokens_prompt"],
        completion_tokens=record["tokens_completion"],
        reasoning_tokens=record["tokens_reasoning"],
        cached_tokens=record["tokens_cached"],
        charge_nano=record["charge_nano"],
        upstream_cost_nano=record["upstream_cost_nano"],
        is_byok=record["is_byok"],
        latency_ms=record["latency_ms"],
        session_id=record["session_id"],
        user=record["external_user"],
        trace=trim_trace(report.trace),
        api_key_name=caller.key_name,
        identity={
            "workspace_id": str(caller.workspace_id),
            "api_key_id": caller.key_id,
            "api_key_name": caller.key_name,
            "user_id": caller.creator_id,
        },
        context=_read_context(report, record),
        allocation=_read_allocation(report, record),
        input=prompt,
        output=answer,
    )


def _read_content(draft: ContentDraft | None) -> tuple[Any, Any]:
    """Prompt and answer without media, cut to the size that is sent."""
    if draft is None:
        return None, None
    answer: JsonObject = {"role": "assistant", "content": "".join(draft.text) or None}
    if draft.reasoning:
        answer["reasoning"] = "".join(draft.reasoning)
    if draft.tool_calls:
        answer["tool_calls"] = draft.tool_calls
    chars_max = settings.DESTINATION_CONTENT_CHARS
    used = min(chars_max, sum(map(len, [*draft.text, *draft.reasoning])))
    prompt = trim_value(strip_media(draft.messages), chars_max - used)[0]
    return prompt, trim_value(answer, chars_max)[0]


def _read_allocation(report: RequestReport, record: JsonObject) -> JsonObject:
    """USD of prompt and answer; empty where they are not all that the answer cost."""
    priced = report.attempts[-1].priced if report.attempts else None
    cost = priced[1] if priced else None
    if cost is None or cost.total_nano != record["upstream_cost_nano"]:
        return {}
    if cost.prompt_nano + cost.completion_nano != cost.total_nano:
        return {}
    return {
        "prompt_usd": cost.prompt_nano / _NANO,
        "completion_usd": cost.completion_nano / _NANO,
    }


def _read_context(report: RequestReport, record: JsonObject) -> JsonObject:
    detail = loads(record["detail"].encode())
    return {
        "request_id": report.identity.id if report.identity else None,
        "format": report.format,
        "streamed": report.streamed,
        "app_title": detail.get("app_title"),
        "referer": detail.get("http_referer"),
        "user_agent": detail.get("user_agent"),
    }


def _as_ns(moment: datetime) -> int:
    # Not by way of a float, which has no room for them.
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1_000
