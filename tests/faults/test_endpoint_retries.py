"""With one endpoint, what fails for a moment is asked again, as an official client would."""

from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.faults import bench
from tests.support.gateways import seed_account

SOLO = bench.model("solo/model", bench.endpoint("first"))
PAIR = bench.model("pair/model", bench.endpoint("first"), bench.endpoint("second"))
RETRYING = {"ROUTER_ENDPOINT_RETRIES": "2", "ROUTER_RETRY_BACKOFF": "0.01"}


@pytest.fixture(scope="module")
def retrying(gateway_with: Any, simulator: Any) -> Any:
    return gateway_with([SOLO, PAIR], **RETRYING)


@pytest.fixture
def desk(retrying: Any, simulator: Any) -> Any:
    simulator.clear()
    yield Desk(retrying, simulator, seed_account(retrying), "solo/model")
    retrying.check_books()


def attempts_of(desk: Desk, response: Any) -> list[int]:
    record = desk.generation(response.headers["X-Generation-Id"])
    return [each["status"] for each in record["provider_responses"]]


def test_a_moment_of_failure_is_not_seen_by_the_caller(desk: Desk) -> None:
    for failure, stream in (
        ({"status": 500}, False),
        ({"status": 503}, True),
        ({"status": 429, "headers": {"Retry-After": "0"}}, False),
    ):
        desk.upstream.script("first", failure, {"text": "Well"})
        response = desk.post(stream=stream)
        assert response.status_code == 200, response.text
        assert attempts_of(desk, response) == [failure["status"], 200]


def test_what_lasts_is_tried_so_often_and_charged_nothing(desk: Desk) -> None:
    for failure, tries in (
        ({"status": 500}, 3),
        ({"status": 401}, 1),
        ({"status": 429, "headers": {"Retry-After": "30"}}, 1),
    ):
        desk.upstream.clear()
        desk.upstream.script("first", failure, repeat=True)
        assert desk.post().status_code >= 400
        assert len(desk.upstream.requests("first")) == tries, failure
    assert desk.total_usage_nano() == 0


def test_another_endpoint_comes_first(desk: Desk) -> None:
    desk.upstream.script("first", {"status": 503}, repeat=True)
    desk.upstream.script("second", {"status": 503}, {"text": "Well"})

    response = desk.post(model="pair/model", provider={"order": ["first", "second"]})

    assert response.status_code == 200, response.text
    assert attempts_of(desk, response) == [503, 503, 503, 200]
