"""What a collector is told of jobs: each is linked to the message that asked for it."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.http.request_id import begin_request, end_request
from gateway.tracing.process import stop_sender
from interns import tasks
from interns.job_queue import serialize_lease
from tests.interns.farm import Farm
from tests.support.collector import Collector, SeenSpan, serve_collector

pytestmark = pytest.mark.django_db
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector(settings: Any) -> Iterator[Collector]:
    with serve_collector() as site:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = site.url
        yield site
        stop_sender(5)


def publish(farm: Farm, intern_id: str, *, flags: str = "01") -> dict[str, str]:
    """Ask for a job with a trace; the headers of its message."""
    begin_request({"HTTP_TRACEPARENT": f"00-{TRACE}-{SPAN}-{flags}"})
    try:
        farm.ok("POST", f"/interns/{intern_id}/provision", status=202)
    finally:
        end_request()
    return farm.queue.headers[-1]


def carry_out(farm: Farm, headers: dict[str, str]) -> None:
    lease = farm.queue.messages.popleft()
    assert tasks.provision.apply(serialize_lease(lease), headers=headers).get() is True


def find(collector: Collector, name: str) -> SeenSpan:
    (span,) = collector.wait_for_name(name, count=1)
    return span


def test_a_job_is_linked_to_the_message_that_the_request_sent(
    farm: Farm, collector: Collector
) -> None:
    made = farm.new()
    carry_out(farm, publish(farm, made["id"]))

    job, message = find(collector, "intern provision"), find(collector, "publish provision")
    assert (message.kind, message.trace_id, message.parent_id) == ("producer", TRACE, SPAN)
    assert (job.kind, job.parent_id, job.failed) == ("consumer", "", False)
    assert job.links == [(TRACE, message.span_id)]
    assert job.trace_id != TRACE
    assert job.attributes["gateway.intern.id"] == made["id"]
    assert job.attributes["gateway.intern.status"] == "running"


def test_a_job_that_failed_says_the_code(farm: Farm, collector: Collector) -> None:
    farm.script.fail("start", {"error": "canary-7c1f09"})
    carry_out(farm, publish(farm, farm.new()["id"]))

    job = find(collector, "intern provision")
    assert (job.failed, job.attributes["error.type"]) == (True, "runtime_start_failed")
    assert b"canary" not in b"".join(collector.bodies)


def test_a_request_that_is_not_sampled_has_no_job_in_traces(
    farm: Farm, collector: Collector
) -> None:
    headers = publish(farm, farm.new()["id"], flags="00")
    assert headers == {}
