"""How long a caller waits: for the first byte of an endpoint, and for the whole answer."""

from collections.abc import Iterator
from typing import Any

import pytest

from routing.selection.types import EndpointStats, Percentiles
from routing.serving.attempts.upstream_call import find_first_byte_limit, find_hedge_delay_s
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import call_to
from tests.support.gateways import seed_account

PAIR = bench.model("pair/model", bench.endpoint("first"), bench.endpoint("second"))
# Nearly every request asks the first one first, unless that is ill.
CHEAPER_FIRST = bench.model(
    "cheaper/first", bench.endpoint("first"), bench.endpoint("second", pricing=bench.DEAR)
)
SHORT = bench.model("short/model", bench.endpoint("first"), bench.endpoint("second"))
# Longer than any of these tests would wait by the caller's own limits.
PATIENT = {"ROUTER_FIRST_BYTE_TIMEOUT": "30", "ROUTER_OUTAGE_WINDOW_SECONDS": "60"}
ORDER = {"order": ["first", "second"]}


@pytest.fixture(scope="module")
def gateway(gateway_with: Any, simulator: Any) -> Any:
    return gateway_with([PAIR, CHEAPER_FIRST, {**SHORT, "first_byte_s": 0.4}], **PATIENT)


@pytest.fixture
def desk(gateway: Any, simulator: Any) -> Iterator[Desk]:
    simulator.clear()
    yield Desk(gateway, simulator, seed_account(gateway), "pair/model")
    gateway.check_books()


def list_tried(desk: Desk, response: Any) -> list[str]:
    record = desk.generation(response.headers["X-Generation-Id"])
    return [each["endpoint_id"] for each in record["provider_responses"]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_silent_endpoint_costs_no_more_than_the_caller_waits_and_nobody_s_health(
    desk: Desk, stream: bool
) -> None:
    desk.upstream.script("first", {"text": "Late", "delay_s": 5}, repeat=True)
    for _ in range(2):
        # Others may be more patient, so that the endpoint is asked first again.
        wishes = {"max_first_byte_s": 0.4}
        response = desk.post(model="cheaper/first", stream=stream, provider=wishes)
        assert response.status_code == 200, response.text
        assert list_tried(desk, response) == ["first", "second"]


def test_a_model_has_its_own_limit(desk: Desk) -> None:
    desk.upstream.script("first", {"text": "Late", "delay_s": 5}, repeat=True)
    response = desk.post(model="short/model", provider=ORDER)
    assert list_tried(desk, response) == ["first", "second"]


def test_a_deadline_ends_the_request_and_nothing_is_charged(desk: Desk) -> None:
    """It travels through every attempt."""
    desk.upstream.script("first", {"status": 503})
    desk.upstream.script("second", {"text": "Late", "delay_s": 5})
    response = desk.post(provider={**ORDER, "deadline_ms": 400})
    assert list_tried(desk, response) == ["first", "second"]
    desk.check_error(response, 408, "timeout")
    assert response.elapsed.total_seconds() < 5
    assert desk.total_usage_nano() == 0
    desk.upstream.clear()
    assert desk.post(provider={"only": ["first"], "deadline_ms": 20_000}).status_code == 200


@pytest.mark.parametrize(
    ("provider", "words"),
    [({"deadline_ms": 0}, "deadline_ms"), ({"max_first_byte_s": -1}, "max_first_byte_s")],
)
def test_times_that_are_none_are_refused(desk: Desk, provider: Any, words: str) -> None:
    response = desk.post(provider=provider)
    assert response.status_code == 400
    assert words in response.text


def observed_stats(p99_s: float) -> EndpointStats:
    return EndpointStats(latency_30m_s=Percentiles(0.1, 0.2, 0.3, p99_s))


@pytest.mark.parametrize(
    ("p99_s", "changes", "expected"),
    [
        (8.0, {}, 40.0),
        # A short prompt says little of a long one.
        (0.5, {}, 15.0),
        # It would be no limit.
        (90.0, {}, None),
        (8.0, {"stream": False}, None),
        (8.0, {"has_others": False}, None),
        (8.0, {"set_s": 3.0}, None),
        (8.0, {"wish_s": 50.0}, 40.0),
    ],
)
def test_where_nobody_set_a_limit_it_comes_of_what_was_observed(
    p99_s: float, changes: dict[str, Any], expected: float | None
) -> None:
    at = endpoint(provider=provider(first_byte_s=changes.get("set_s")))
    body: dict[str, Any] = {"stream": changes.get("stream", True)}
    if "wish_s" in changes:
        body["provider"] = {"max_first_byte_s": changes["wish_s"]}
    call = call_to(at, **body)
    state = call.context.choice.state._replace(figures={at.pk: observed_stats(p99_s)})
    call.context = call.context._replace(choice=call.context.choice._replace(state=state))
    found = find_first_byte_limit(call, at, has_others=changes.get("has_others", True))
    assert found == (expected, False)


@pytest.mark.parametrize(
    ("wishes", "stream", "expected"),
    [
        ({}, True, 0.7),
        ({}, False, 9.0),
        ({"hedge_after_s": 2.5}, True, 2.5),
    ],
)
def test_a_second_endpoint_is_asked_after_the_usual_time_of_such_an_answer(
    wishes: dict[str, Any], stream: bool, expected: float
) -> None:
    known, unknown = endpoint("known"), endpoint("unknown")
    call = call_to(known, stream=stream, provider={"hedge": True, **wishes})
    figures = {known.pk: EndpointStats(stream_p95_s=0.7, whole_p95_s=9.0)}
    state = call.context.choice.state._replace(figures=figures)
    call.context = call.context._replace(choice=call.context.choice._replace(state=state))
    assert find_hedge_delay_s(call, known) == expected
    assert find_hedge_delay_s(call, unknown) == wishes.get("hedge_after_s", 5.0)
