"""The same request several times at once: one upstream call, one charge, an answer for each."""

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import pytest
import requests

from tests.conformance.desk import Desk, exact, read_stream

AT_ONCE = 3
SHARE = {"X-Router-Share": "true"}
HELD: dict[str, Any] = {"text": "Once.", "gate": "held"}
COLD: dict[str, Any] = {"temperature": 0}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    """Of a key that has three requests under way at most."""
    limits = {"rate_limits": [{"concurrent": AT_ONCE}]}
    path = f"/keys/{own_wide_desk.account.api_key_hash}"
    assert own_wide_desk.manage("PATCH", path, limits).status_code == 200
    own_wide_desk.model = "acme/over-openai"
    return own_wide_desk


def post_at_once(
    desk: Desk, *steps: dict[str, Any], first: dict[str, Any] = HELD, **asked: Any
) -> list[requests.Response]:
    """The answers to a request that is sent three times, while the first is held upstream."""
    desk.upstream.script("chat-a", first, *steps)
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        sent = [pool.submit(desk.post, **asked)]
        desk.upstream.wait_gate("held")
        sent += [pool.submit(desk.post, **asked) for _ in range(AT_ONCE)]
        # Once one is refused, the places are full: the others are under way.
        (refused,) = wait(sent, return_when=FIRST_COMPLETED).done
        assert refused.result().status_code == 429
        sent.remove(refused)
        desk.upstream.open_gate("held")
        return [each.result() for each in sent]


def read_status(answer: requests.Response) -> str | None:
    return answer.headers.get("X-Router-Cache-Status")


def test_whole_answers_that_would_be_the_same_are_shared(desk: Desk) -> None:
    first, *others = post_at_once(desk, {"text": "Twice."}, **COLD)

    assert len(desk.upstream.requests("chat-a")) == 1
    assert read_status(first) is None
    assert desk.charged_nano(first.headers["X-Generation-Id"]) > 0
    assert len({each.headers["X-Generation-Id"] for each in (first, *others)}) == AT_ONCE
    for each in others:
        assert read_status(each) == "SHARED"
        assert each.headers["X-Router-Cache-Source-Id"] == first.headers["X-Generation-Id"]
        assert exact(each)["choices"][0]["message"]["content"] == "Once."
        assert exact(each)["usage"]["cost"] == 0
        assert desk.charged_nano(each.headers["X-Generation-Id"]) == 0
    # It has ended: whoever asks now asks anew.
    assert desk.ok(**COLD)["choices"][0]["message"]["content"] == "Twice."


def test_a_stream_is_shared_where_it_is_asked_for(desk: Desk) -> None:
    answers = post_at_once(desk, headers=SHARE, stream=True)

    assert len(desk.upstream.requests("chat-a")) == 1
    assert [read_status(each) for each in answers] == [None, "SHARED", "SHARED"]
    assert {read_stream(each).text for each in answers} == {"Once."}


def test_where_the_first_fails_the_next_asks(desk: Desk) -> None:
    fault = {"fault": "422", "gate": "held"}
    answers = post_at_once(desk, {"text": "Then."}, first=fault, **COLD)

    assert [each.status_code for each in answers] == [422, 200, 200]
    assert len(desk.upstream.requests("chat-a")) == 2
    assert sorted(str(read_status(each)) for each in answers[1:]) == ["None", "SHARED"]


def test_who_waits_for_an_answer_that_is_too_large_asks_at_once(desk: Desk) -> None:
    large = {**HELD, "text": "word " * 40_000}
    answers = post_at_once(desk, {"text": "Twice."}, {"text": "Thrice."}, first=large, **COLD)

    assert [read_status(each) for each in answers] == [None] * AT_ONCE
    assert len(desk.upstream.requests("chat-a")) == AT_ONCE
