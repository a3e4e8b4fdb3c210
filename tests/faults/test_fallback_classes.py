"""What each failure lets the gateway try next, and what the caller is told in the end.

The tables are the inference reference's 7.7 and 9.3, one line for each fault. An answer whose body
is not what it should be (U5) is one of them.
"""

from typing import Any, NamedTuple

import pytest

from tests.conformance.desk import Desk, read_stream
from tests.faults import bench
from tests.faults.bench import DEAR_NANO, MODES, endpoint, model
from tests.faults.conftest import Open
from tests.faults.desks import attempts, read_answer

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
    *(Class(fault, True, 502, UNAVAILABLE, 502) for fault in ("truncated-json", "null-body")),
    *(
        Class(fault, True, 502, UNAVAILABLE, 502)
        for fault in ("empty-choices", "wrong-content-type")
    ),
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


# Faults of one way of answering alone.
BAD_WHOLE = ("bad-utf8", "long-content-length", "short-content-length")
BAD_STREAMS = ("sse-error-inside", "sse-not-objects")
CASES = [(case, mode) for case in CLASSES for mode in MODES]
CASES += [(Class(fault, True, 502, UNAVAILABLE, 502), "whole") for fault in BAD_WHOLE]
CASES += [(Class(fault, True, 502, UNAVAILABLE, 502), "stream") for fault in BAD_STREAMS]


@pytest.mark.grid
@pytest.mark.parametrize(("case", "mode"), CASES, ids=[f"{c.fault}-{mode}" for c, mode in CASES])
def test_a_failure_goes_where_it_may_do_better_and_is_told_by_its_class(
    desk: Desk, case: Class, mode: str
) -> None:
    stream = mode == "stream"
    alone, pair = (f"{kind}/{case.fault}.{mode}" for kind in ("alone", "pair"))
    response = desk.post(model=alone, stream=stream)

    error = desk.check_error(response, case.status, case.error_type)
    assert error["message"].startswith(case.says)
    assert error["metadata"]["provider_name"] == "First"
    assert "previous_errors" not in error["metadata"]
    assert "first-secret" not in response.text
    generation = response.headers["X-Generation-Id"]
    assert attempts(desk, generation) == [("First", case.seen)]
    assert desk.charged_nano(generation) == 0

    # Another endpoint of the model, where it may do better.
    if case.elsewhere:
        said = read_answer(desk, stream=stream, model=pair)
        assert attempts(desk, said["id"]) == [("First", case.seen), ("Second", 200)]
        prompt, completion = said["usage"]["prompt_tokens"], said["usage"]["completion_tokens"]
        assert desk.paid_nano(said) == DEAR_NANO[0] * prompt + DEAR_NANO[1] * completion > 0
    else:
        desk.check_error(desk.post(model=pair, stream=stream), case.status, case.error_type)
        assert desk.list_sent_bodies("second") == []

    # Another model, always.
    said = read_answer(desk, stream=stream, model=alone, models=["plain/third"])
    assert (said["model"], said["provider"]) == ("plain/third", "Third")
    assert desk.paid_nano(said) > 0


@pytest.mark.parametrize("fault", ["413", "400-context-length"])
def test_too_long_for_one_endpoint_goes_to_a_larger_one_only(desk_of: Open, fault: str) -> None:
    first = endpoint("first", f"sim/{fault}", context_length=8_000)
    as_small = endpoint("second", context_length=8_000, pricing=bench.DEAR)
    larger = endpoint("third", context_length=64_000, pricing={"prompt": "1", "completion": "1"})
    mine = desk_of([model(f"long/{fault}", first, as_small, larger)])

    answer = mine.ok(max_tokens=20)

    assert answer["provider"] == "Third"
    assert mine.list_sent_bodies("second") == []
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


def test_every_attempt_after_commitment_shows_its_debug_chunk(desk_of: Any) -> None:
    both = model("shown/x", endpoint("first"), endpoint("second", pricing=bench.DEAR))
    mine = desk_of([both])
    mine.upstream.script("first", {"events": [{"gate": "never"}]})

    stream = read_stream(mine.post(stream=True, debug={"echo_upstream_body": True}))

    assert sum("debug" in chunk for chunk in stream.chunks) == 2
    assert stream.blocks[-1] == "data: [DONE]"
