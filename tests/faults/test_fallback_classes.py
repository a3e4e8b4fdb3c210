"""What each failure lets the gateway try next, and what the caller is told in the end.

The tables are the inference reference's 7.7 and 9.3, one line for each fault.
"""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, NamedTuple

import pytest

from tests.conformance.desk import Desk, read_stream
from tests.faults import bench
from tests.faults.bench import DEAR_NANO, MODES, endpoint, model
from tests.faults.conftest import Open

pytestmark = pytest.mark.thorough

FIXED = "Provider returned error"


class Class(NamedTuple):
    """`elsewhere`: another endpoint of the model is tried. `seen` is the attempt's status."""

    fault: str
    elsewhere: bool
    status: int
    error_type: str
    seen: int
    says: str = FIXED


SLOW = "Request timed out. Please try again later."
CLASSES = [
    Class("reset", True, 502, "provider_unavailable", 502),
    Class("close", True, 502, "provider_unavailable", 502),
    Class("reset-after-headers", True, 502, "provider_unavailable", 502),
    Class("hang", True, 524, "timeout", 524, SLOW),
    Class("408", True, 524, "timeout", 408),
    Class("504", True, 524, "timeout", 504),
    Class("429", True, 429, "rate_limit_exceeded", 429),
    Class("500", True, 502, "provider_unavailable", 500),
    Class("502", True, 502, "provider_unavailable", 502),
    Class("503", True, 503, "provider_overloaded", 503),
    Class("529", True, 529, "provider_overloaded", 529),
    Class("empty-body", True, 502, "provider_unavailable", 502),
    Class("truncated-json", True, 502, "provider_unavailable", 502),
    Class("html", True, 502, "provider_unavailable", 502),
    Class("wrong-content-type", True, 502, "provider_unavailable", 502),
    Class("redirect", True, 502, "unmapped", 302),
    Class("401", True, 502, "provider_unavailable", 401),
    Class("402", True, 502, "provider_unavailable", 402),
    Class("403", True, 502, "provider_unavailable", 403),
    Class("404", True, 404, "not_found", 404, "The model does not exist."),
    Class("400", False, 400, "invalid_request", 400, "Simulated rejection of the request."),
    Class("400-unsupported-parameter", True, 400, "invalid_request", 400, "Unsupported parameter"),
    Class("422", False, 422, "unprocessable", 422, "Simulated unprocessable request."),
    Class("413", False, 413, "payload_too_large", 413, "Simulated request too large."),
    Class("400-context-length", False, 400, "context_length_exceeded", 400, "This model's maximum"),
    Class("403-policy", False, 403, "content_policy_violation", 403, "The request violates"),
]
each_class = pytest.mark.parametrize("case", CLASSES, ids=[case.fault for case in CLASSES])
each_mode = pytest.mark.parametrize("mode", MODES)


def ask(desk: Desk, model_id: str, mode: str, **body: Any) -> Any:
    """Who answered and what it cost: the answer, or the usage chunk of a stream."""
    if mode == "whole":
        return desk.ok(model=model_id, **body)
    return desk.stream(model=model_id, **body).chunks[-1]


@pytest.mark.grid
@each_mode
@each_class
def test_the_last_failure_is_told_by_its_class(desk: Desk, case: Class, mode: str) -> None:
    stream = mode == "stream"

    response = desk.post(model=f"alone/{case.fault}.{mode}", stream=stream)

    error = desk.told(response, case.status, case.error_type)
    assert error["message"].startswith(case.says)
    assert error["metadata"]["provider_name"] == "First"
    assert "previous_errors" not in error["metadata"]
    assert "first-secret" not in response.text
    record = desk.generation(response.headers["X-Generation-Id"])
    assert [attempt["status"] for attempt in record["provider_responses"]] == [case.seen]
    assert desk.charged_nano(record["id"]) == 0


@each_mode
@each_class
def test_another_endpoint_is_tried_where_it_may_do_better(
    desk: Desk, case: Class, mode: str
) -> None:
    model_id = f"pair/{case.fault}.{mode}"
    if not case.elsewhere:
        response = desk.post(model=model_id, stream=mode == "stream")
        desk.told(response, case.status, case.error_type)
        assert desk.sent("second") == []
        assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0
        return

    answer = ask(desk, model_id, mode)

    assert answer["provider"] == "Second"
    assert len(desk.sent("second")) == 1
    prompt, completion = DEAR_NANO
    usage = answer["usage"]
    expected = prompt * usage["prompt_tokens"] + completion * usage["completion_tokens"]
    assert desk.paid_nano(answer) == expected > 0
    attempts = desk.generation(answer["id"])["provider_responses"]
    assert [attempt["status"] for attempt in attempts] == [case.seen, 200]


@each_mode
@each_class
def test_the_next_model_is_always_tried(desk: Desk, case: Class, mode: str) -> None:
    first = f"alone/{case.fault}.{mode}"

    answer = ask(desk, first, mode, models=["plain/third"])

    assert (answer["model"], answer["provider"]) == ("plain/third", "Third")
    assert desk.paid_nano(answer) > 0


@pytest.mark.parametrize(
    ("status", "told", "error_type"),
    [
        *[(status, 502, "provider_unavailable") for status in (501, 505, 520, 521, 522, 523, 599)],
        (524, 524, "timeout"),
        *[(status, 502, "unmapped") for status in (304, 402 + 3, 409, 418, 451)],
    ],
)
def test_other_statuses(desk: Desk, status: int, told: int, error_type: str) -> None:
    desk.upstream.script("first", {"status": status, "json": {"error": {"message": "odd"}}})

    response = desk.post()

    error = desk.told(response, told, error_type)
    assert error["message"] == FIXED
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


@each_mode
def test_all_models_failing_tells_the_last_and_lists_the_earlier(desk: Desk, mode: str) -> None:
    models = [f"alone/400.{mode}", f"pair/500.{mode}", f"alone/503.{mode}"]
    desk.upstream.script("second", {"status": 529})

    response = desk.post(
        model=models[0],
        models=models[1:],
        stream=mode == "stream",
        headers={"X-Router-Metadata": "enabled"},
    )

    error = desk.told(response, 503, "provider_overloaded")
    assert error["metadata"]["previous_errors"] == [
        {"provider": "First", "code": "invalid_request", "status": 400},
        {"provider": "First", "code": "provider_unavailable", "status": 500},
        {"provider": "Second", "code": "provider_overloaded", "status": 529},
    ]
    metadata = response.json()["router_metadata"]
    assert metadata["attempt"] == 4
    assert metadata["strategy"] == "fallback"
    assert [each["status"] for each in metadata["attempts"]] == [400, 500, 529, 503]
    assert not [each for each in metadata["endpoints"]["available"] if each["selected"]]
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def limited(wait: str | None) -> dict[str, Any]:
    return {"status": 429, "headers": {"Retry-After": wait} if wait is not None else {}}


@pytest.mark.parametrize(
    ("hints", "told"),
    [
        (("7", "3"), "3"),
        (("2", "9"), "2"),
        (("7", None), None),
        ((None, "3"), None),
        (("soon", "3"), None),
        (("-1", "3"), None),
        (("0", "3"), "0"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_retry_after_is_the_smallest_hint_where_all_gave_one(
    desk: Desk, hints: tuple[str | None, str | None], told: str | None, stream: bool
) -> None:
    first, second = hints
    desk.upstream.script("first", limited(first))
    desk.upstream.script("second", limited(second))

    response = desk.post(model="plain/first", models=["plain/second"], stream=stream)

    error = desk.told(response, 429, "rate_limit_exceeded")
    assert response.headers.get("Retry-After") == told
    assert error["metadata"]["limit_source"] == "upstream_provider_shared_pool"
    assert error["metadata"]["remedy_hint"]
    assert [each["status"] for each in error["metadata"]["previous_errors"]] == [429]


def test_a_retry_hint_may_be_a_date(desk: Desk) -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    for hint, least, most in (
        (in_a_minute, 30, 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
    ):
        desk.upstream.script("first", limited(hint))
        assert least <= int(desk.post().headers["Retry-After"]) <= most


@pytest.mark.parametrize("fault", ["413", "400-context-length"])
def test_too_long_for_one_endpoint_goes_to_a_larger_one_only(desk_on: Open, fault: str) -> None:
    first = endpoint("first", f"sim/{fault}", context_length=8_000)
    as_small = endpoint("second", context_length=8_000, pricing=bench.DEAR)
    larger = endpoint("third", context_length=64_000, pricing={"prompt": "1", "completion": "1"})
    mine = desk_on([model("long/one", first, as_small, larger)])

    answer = mine.ok(max_tokens=20)

    assert answer["provider"] == "Third"
    assert mine.sent("second") == []
    assert mine.paid_nano(answer) > 0


def test_previous_attempts_leave_no_trace_in_a_stream_that_succeeds(desk: Desk) -> None:
    response = desk.post(model="pair/503.stream", stream=True)

    stream = read_stream(response)
    assert {chunk["provider"] for chunk in stream.chunks} == {"Second"}
    assert stream.blocks[-1] == "data: [DONE]"
    assert all("error" not in chunk for chunk in stream.chunks)
