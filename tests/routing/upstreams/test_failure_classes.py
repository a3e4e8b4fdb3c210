"""The table of inference reference 7.7: what may be tried next, and which failure is an outage."""

import json
from typing import Any, NamedTuple

import pytest

from routing.upstreams.door_errors import (
    BodyTooLarge,
    ConnectFailed,
    ConnectTimeout,
    Disconnected,
    DoorError,
    FirstByteTimeout,
    IdleTimeout,
    MalformedReply,
)
from routing.upstreams.failures import (
    UpstreamFailure,
    from_door,
    from_error_object,
    from_status,
    malformed,
    refused,
)


class Next(NamedTuple):
    """`elsewhere`: another endpoint of the model; `larger`: only one with a larger context."""

    elsewhere: bool
    larger: bool = False
    outage: bool = False
    parked: bool = False


def seen(failure: UpstreamFailure) -> Next:
    larger = failure.elsewhere and failure.larger_only
    return Next(failure.elsewhere, larger, failure.outage, failure.parked)


def answered(status: int, message: str = "", code: str | None = None) -> UpstreamFailure:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return from_status(status, {}, body)


SICK, WELL, NO = Next(True, outage=True), Next(True), Next(False)
LARGER, PARKED = Next(True, larger=True), Next(True, parked=True)

STATUSES: list[tuple[int, str, str | None, Next]] = [
    *[(status, "", None, SICK) for status in (408, 500, 501, 502, 503, 504, 520, 521, 522, 523)],
    *[(status, "", None, SICK) for status in (524, 529)],
    (429, "", None, PARKED),
    # Our own credential: the endpoint is reported unhealthy.
    *[(status, "No access.", None, SICK) for status in (401, 402, 403)],
    (404, "", None, WELL),
    *[(status, "Bad value for messages.", None, NO) for status in (400, 422)],
    (400, "Unsupported parameter: 'top_k'", None, WELL),
    (400, "Hm.", "unsupported_parameter", WELL),
    (422, "Unknown parameter: top_k", None, WELL),
    (413, "", None, LARGER),
    (400, "This model's maximum context length is 8192 tokens.", None, LARGER),
    (400, "Too long.", "context_length_exceeded", LARGER),
    (400, "prompt is too long: 208310 tokens > 200000 maximum", None, LARGER),
    (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 2", None, LARGER),
    (400, "No.", "content_policy_violation", NO),
    (403, "The prompt violates our usage policies.", None, NO),
    (403, "Blocked by moderation.", None, NO),
    (403, "I will not.", "refusal", NO),
    (400, "An image is too large.", "image_too_large", NO),
]


def test_an_empty_account_of_ours_is_not_the_requests_fault() -> None:
    failure = answered(400, "Your credit balance is too low to access the API.")

    assert seen(failure) == SICK
    assert failure.told_status == 502
    assert "balance" not in failure.message


@pytest.mark.parametrize(("status", "message", "code", "expected"), STATUSES)
def test_a_status(status: int, message: str, code: str | None, expected: Next) -> None:
    assert seen(answered(status, message, code)) == expected


@pytest.mark.parametrize(("status", "message", "code", "expected"), STATUSES)
def test_the_same_inside_a_200(status: int, message: str, code: str | None, expected: Next) -> None:
    if code is None:
        assert seen(from_error_object({"code": status, "message": message})) == expected
    elif status == 400 and expected is NO:
        assert seen(from_error_object({"code": code, "message": message})).elsewhere is False


DOOR: list[tuple[type[DoorError], Next]] = [
    *[(kind, SICK) for kind in (ConnectFailed, ConnectTimeout, Disconnected, FirstByteTimeout)],
    *[(kind, SICK) for kind in (IdleTimeout, MalformedReply)],
    (BodyTooLarge, WELL),
]


@pytest.mark.parametrize(("kind", "expected"), DOOR)
def test_a_connection(kind: type[DoorError], expected: Next) -> None:
    assert seen(from_door(kind("what happened", phase="body"))) == expected


OTHERS: list[tuple[Any, Next]] = [
    (malformed("an answer of type 'text/html'"), WELL),
    (refused(), NO),
    (from_error_object("odd"), SICK),
]


@pytest.mark.parametrize(("failure", "expected"), OTHERS)
def test_a_2xx_that_is_no_answer(failure: UpstreamFailure, expected: Next) -> None:
    assert seen(failure) == expected
