"""What each failure lets the gateway try next, and what the caller is told in the end.

The tables are the inference reference's 7.7 and 9.3, one line for each fault.
"""

from typing import Any, NamedTuple

import pytest

from tests.conformance.desk import Desk, read_stream
from tests.faults import bench
from tests.faults.bench import DEAR_NANO, MODES, endpoint, model
from tests.faults.conftest import Open
from tests.faults.desks import attempts, told

pytestmark = pytest.mark.thorough
FIXED = "Provider returned error"
UNAVAILABLE = "provider_unavailable"
SLOW = "Request timed out. Please try again later."


class Class(NamedTuple):
    """`elsewhere`: another endpoint of the model is tried. `seen` is the attempt's status."""

    fault: str
    elsewhere: bool
    status: int
    error_type: str
    seen: int
    says: str = FIXED


CLASSES = [
    *(Class(fault, True, 502, UNAVAILABLE, 502) for fault in ("reset", "close", "html")),
    *(Class(fault, True, 502, UNAVAILABLE, 502) for fault in ("reset-after-headers", "empty-body")),
    *(Class(status, True, 502, UNAVAILABLE, int(status)) for status in ("500", "502")),
    *(Class(status, True, 502, UNAVAILABLE, int(status)) for status in ("401", "402", "403")),
    Class("hang", True, 524, "timeout", 524, SLOW),
    Class("408", True, 524, "timeout", 408),
    Class("429", True, 429, "rate_limit_exceeded", 429),
    Class("503", True, 503, "provider_overloaded", 503),
    Class("529", True, 529, "provider_overloaded", 529),
    Class("redirect", True, 502, "unmapped", 302),
    Class("404", True, 404, "not_found", 404, "The model does not exist."),
    Class("400", False, 400, "invalid_request", 400, "Simulated rejection of the request."),
    Class("400-unsupported-parameter", True, 400, "invalid_request", 400, "Unsupported parameter"),
    Class("422", False, 422, "unprocessable", 422, "Simulated unprocessable request."),
    Class("413", False, 413, "payload_too_large", 413, "Simulated request too large."),
    Class("400-context-length", False, 400, "context_length_exceeded", 400, "This model's maximum"),
    Class("403-policy", False, 403, "content_policy_violation", 403, "The request violates"),
]


@pytest.mark.grid
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CLASSES, ids=[case.fault for case in CLASSES])
def test_a_failure_goes_where_it_may_do_better_and_is_told_by_its_class(
    desk: Desk, case: Class, mode: str
) -> None:
    stream = mode == "stream"
    alone, pair = (f"{kind}/{case.fault}.{mode}" for kind in ("alone", "pair"))
    response = desk.post(model=alone, stream=stream)

    error = desk.told(response, case.status, case.error_type)
    assert error["message"].startswith(case.says)
    assert error["metadata"]["provider_name"] == "First"
    assert "previous_errors" not in error["metadata"]
    assert "first-secret" not in response.text
    generation = response.headers["X-Generation-Id"]
    assert attempts(desk, generation) == [("First", case.seen)]
    assert desk.charged_nano(generation) == 0

    # Another endpoint of the model, where it may do better.
    if case.elsewhere:
        said = told(desk, stream=stream, model=pair)
        assert attempts(desk, said["id"]) == [("First", case.seen), ("Second", 200)]
        prompt, completion = said["usage"]["prompt_tokens"], said["usage"]["completion_tokens"]
        assert desk.paid_nano(said) == DEAR_NANO[0] * prompt + DEAR_NANO[1] * completion > 0
    else:
        desk.told(desk.post(model=pair, stream=stream), case.status, case.error_type)
        assert desk.sent("second") == []

    # Another model, always.
    said = told(desk, stream=stream, model=alone, models=["plain/third"])
    assert (said["model"], said["provider"]) == ("plain/third", "Third")
    assert desk.paid_nano(said) > 0


@pytest.mark.parametrize("mode", MODES)
def test_all_models_failing_tells_the_last_and_lists_the_earlier(desk: Desk, mode: str) -> None:
    models = [f"alone/400.{mode}", f"pair/500.{mode}", f"alone/503.{mode}"]
    desk.upstream.script("second", {"status": 529})
    asked = {"model": models[0], "models": models[1:], "stream": mode == "stream"}

    response = desk.post(headers={"X-Router-Metadata": "enabled"}, **asked)

    error = desk.told(response, 503, "provider_overloaded")
    assert error["metadata"]["previous_errors"] == [
        {"provider": "First", "code": "invalid_request", "status": 400},
        {"provider": "First", "code": UNAVAILABLE, "status": 500},
        {"provider": "Second", "code": "provider_overloaded", "status": 529},
    ]
    metadata = response.json()["router_metadata"]
    assert (metadata["attempt"], metadata["strategy"]) == (4, "fallback")
    assert [each["status"] for each in metadata["attempts"]] == [400, 500, 529, 503]
    assert not [each for each in metadata["endpoints"]["available"] if each["selected"]]
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def limited(wait: str | None) -> dict[str, Any]:
    return {"status": 429, "headers": {"Retry-After": wait} if wait is not None else {}}


@pytest.mark.parametrize(("second", "told", "stream"), [("3", "3", True), (None, None, False)])
def test_retry_after_is_the_smallest_hint_where_all_gave_one(
    desk: Desk, second: str | None, told: str | None, stream: bool
) -> None:
    desk.upstream.script("first", limited("7"))
    desk.upstream.script("second", limited(second))

    response = desk.post(model="plain/first", models=["plain/second"], stream=stream)

    error = desk.told(response, 429, "rate_limit_exceeded")
    assert response.headers.get("Retry-After") == told
    assert error["metadata"]["limit_source"] == "upstream_provider_shared_pool"
    assert error["metadata"]["remedy_hint"]
    assert [each["status"] for each in error["metadata"]["previous_errors"]] == [429]


@pytest.mark.parametrize("fault", ["413", "400-context-length"])
def test_too_long_for_one_endpoint_goes_to_a_larger_one_only(desk_of: Open, fault: str) -> None:
    first = endpoint("first", f"sim/{fault}", context_length=8_000)
    as_small = endpoint("second", context_length=8_000, pricing=bench.DEAR)
    larger = endpoint("third", context_length=64_000, pricing={"prompt": "1", "completion": "1"})
    mine = desk_of([model(f"long/{fault}", first, as_small, larger)])

    answer = mine.ok(max_tokens=20)

    assert answer["provider"] == "Third"
    assert mine.sent("second") == []
    assert mine.paid_nano(answer) > 0


# --- What a second look at the request path found, one promise each -------------------------------

REFUSED = {"message": {"role": "assistant", "content": None, "refusal": "No."}}


def test_a_refusal_goes_on_to_the_next_listed_model(desk_of: Any) -> None:
    mine = desk_of([model("no/one", endpoint("first")), model("yes/one", endpoint("second"))])
    step = {"json": {"id": "x", "choices": [{"index": 0, "finish_reason": "stop", **REFUSED}]}}
    mine.upstream.script("first", step, step)
    mine.upstream.script("second", {"text": "Gladly."}, {"status": 500, "json": {}})

    answered = mine.ok(models=["yes/one"])
    refused = mine.ok(models=["yes/one"])

    assert answered["model"] == "yes/one"
    assert refused["model"] == "no/one"
    assert refused["choices"][0]["finish_reason"] == "stop"
    assert refused["choices"][0]["message"]["refusal"]
    assert mine.generation(refused["id"])["provider_name"] == "First"


def test_an_error_without_any_output_is_no_answer(desk_of: Any) -> None:
    mine = desk_of([model("mute/x", endpoint("first"))])
    empty = {
        "index": 0,
        "finish_reason": "error",
        "message": {"role": "assistant", "content": None},
    }
    mine.upstream.script("first", {"json": {"id": "x", "choices": [empty]}})

    assert mine.post().status_code == 502


def test_every_attempt_after_commitment_shows_its_debug_chunk(desk_on: Any) -> None:
    both = model("pair/x", endpoint("first"), endpoint("second", pricing=bench.DEAR))
    mine = desk_on([both], ROUTER_STREAM_COMMIT_SECONDS="0.1", ROUTER_IDLE_TIMEOUT="0.4")
    mine.upstream.script("first", {"events": [{"gate": "never"}]})

    stream = read_stream(mine.post(stream=True, debug={"echo_upstream_body": True}))

    assert sum("debug" in chunk for chunk in stream.chunks) == 2
    assert stream.blocks[-1] == "data: [DONE]"
