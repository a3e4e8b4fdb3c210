"""The table of inference reference 7.7: what may be tried next, and which failure is an outage."""

import json
from typing import Any, NamedTuple

import pytest

from gateway.outbound.errors import (
    BodyTooLarge,
    ConnectFailed,
    ConnectTimeout,
    Disconnected,
    FirstByteTimeout,
    IdleTimeout,
    MalformedReply,
    OutboundError,
)
from routing.upstreams.failures import (
    RAW_CHARS_MAX,
    UpstreamFailure,
    from_error_object,
    from_outbound_error,
    from_status,
    malformed_answer,
    parse_retry_after,
    read_error_body,
    refused_answer,
)


class Next(NamedTuple):
    """`elsewhere`: another endpoint of the model; `larger`: only one with a larger context."""

    elsewhere: bool
    larger: bool = False
    outage: bool = False
    parked: bool = False


def what_next(failure: UpstreamFailure) -> Next:
    larger = failure.elsewhere and failure.larger_only
    return Next(failure.elsewhere, larger, failure.outage, failure.parked)


def failure_of(status: int, message: str = "", code: str | None = None) -> UpstreamFailure:
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


@pytest.mark.parametrize(("status", "message", "code", "expected"), STATUSES)
def test_a_status_and_the_same_inside_a_200(
    status: int, message: str, code: str | None, expected: Next
) -> None:
    assert what_next(failure_of(status, message, code)) == expected
    if code is None:
        assert what_next(from_error_object({"code": status, "message": message})) == expected
    elif status == 400 and expected is NO:
        assert what_next(from_error_object({"code": code, "message": message})).elsewhere is False


def test_an_empty_account_of_ours_is_not_the_requests_fault() -> None:
    failure = failure_of(400, "Your credit balance is too low to access the API.")
    assert what_next(failure) == SICK
    assert failure.caller_status == 502
    assert "balance" not in failure.message


def test_who_quotes_the_words_of_an_empty_account_has_one_all_the_same() -> None:
    quoted = failure_of(400, "Invalid schema: property 'Your credit balance is too low'")
    assert not quoted.credential
    named = {"loc": ["body", "your credit balance is too low"], "msg": "bad"}
    assert not from_status(400, {}, json.dumps({"detail": [named]}).encode()).credential


@pytest.mark.parametrize("said", ["Content violates usage guidelines.", "SAFETY_CHECK_TYPE_BIO"])
def test_refused_content_is_not_the_credential_s_fault(said: str) -> None:
    failure = failure_of(403, said)
    assert not failure.credential
    assert failure.error_type == POLICY


def test_words_name_the_fault_where_no_code_does_and_of_their_status_alone() -> None:
    too_long = "This model's maximum context length is 8192 tokens."
    assert failure_of(413, too_long).error_type == "context_length_exceeded"
    assert failure_of(400, too_long, "content_filter").error_type == POLICY
    assert from_error_object({"code": 404, "message": "See our policy."}).error_type == "not_found"
    assert not failure_of(404, "Your credit balance is too low.").credential


OVERLOADED, UNAVAILABLE = "provider_overloaded", "provider_unavailable"
POLICY = "content_policy_violation"
# The upstream's status and code; the status and the type that the caller is told, and whether in
# the upstream's own words.
TOLD: list[tuple[int, str | None, int, str, bool]] = [
    (400, None, 400, "invalid_request", True),
    *[(status, None, 502, UNAVAILABLE, False) for status in (401, 402, 403, 500, 502, 599)],
    (404, None, 404, "not_found", True),
    *[(status, None, 524, "timeout", False) for status in (408, 504, 524)],
    (413, None, 413, "payload_too_large", True),
    (422, None, 422, "unprocessable", True),
    (429, None, 429, "rate_limit_exceeded", False),
    (503, None, 503, OVERLOADED, False),
    (529, None, 529, OVERLOADED, False),
    (400, "context_length_exceeded", 400, "context_length_exceeded", True),
    (413, "max_tokens_exceeded", 400, "max_tokens_exceeded", True),
    (422, "token_limit_exceeded", 400, "token_limit_exceeded", True),
    (422, "string_above_max_length", 400, "string_too_long", True),
    (422, "string_too_long", 400, "string_too_long", True),
    (422, "invalid_image", 400, "invalid_image", True),
    (422, "invalid_image_format", 400, "unsupported_image_format", True),
    (422, "image_too_large", 400, "image_too_large", True),
    (422, "image_too_small", 400, "image_too_small", True),
    *[(400, word, 403, POLICY, True) for word in (POLICY, "content_filter", "moderation_blocked")],
    (403, "refusal", 403, "refusal", True),
]


@pytest.mark.parametrize(("status", "code", "told", "kind", "own_words"), TOLD)
def test_what_the_caller_is_told(
    status: int, code: str | None, told: int, kind: str, own_words: bool
) -> None:
    failure = failure_of(status, "It Said So.", code)
    assert (failure.status, failure.caller_status, failure.error_type) == (status, told, kind)
    assert failure.message == ("It Said So." if own_words else "Provider returned error")
    assert failure.credential is (code is None and status in (401, 402, 403))
    assert failure.provider_code == code
    if code is None:
        error = {"code": status, "message": "It Said So."}
        inside = from_error_object(error)
        assert (inside.caller_status, inside.error_type) == (told, kind)
        assert (inside.message, inside.credential) == (failure.message, failure.credential)
        assert inside.raw is not None
        assert (json.loads(inside.raw), inside.provider_code) == (error, str(status))


@pytest.mark.parametrize(
    "error",
    [
        *("odd", None, {}),
        *({"code": code} for code in (200, 600, "5xx", "0503", "٥٠٣")),
        *({"status_code": status} for status in (True, 40, "abc", 200, 700, None)),
    ],
)
def test_an_error_object_that_names_no_status_is_an_outage(error: Any) -> None:
    failure = from_error_object(error)
    assert (failure.status, failure.caller_status, failure.error_type) == (502, 502, UNAVAILABLE)
    assert what_next(failure) == SICK


def test_a_status_that_is_no_error_is_not_mapped() -> None:
    failure = failure_of(302)
    assert (failure.caller_status, failure.error_type) == (502, "unmapped")
    assert what_next(failure) == WELL


def test_secrets_are_taken_out_of_all_that_an_upstream_says() -> None:
    failure = failure_of(400, "Bad key sk-1.", "no sk-1")
    failure.hide("sk-1")
    assert failure.message == "Bad key [hidden]."
    assert failure.provider_code == "no [hidden]"
    assert failure.raw is not None
    assert "sk-1" not in failure.raw
    assert str(failure) == "invalid_request (400): Bad key [hidden]."


@pytest.mark.parametrize("secret", [None, "", "sk-1"])
def test_what_is_kept_of_an_upstreams_words_is_bounded(secret: str | None) -> None:
    failure, silent = from_status(500, {}, b"x" * 99_999), from_error_object("")
    failure.hide(secret)
    silent.hide(secret)
    assert len(failure.raw or "") == RAW_CHARS_MAX == 4096
    assert (silent.raw, failure.provider_code) == (None, None)


def test_a_secret_at_the_cut_leaves_no_beginning_behind() -> None:
    failure = from_status(500, {}, b"x" * (RAW_CHARS_MAX - 2) + b"sk-1" + b"y" * 9_999)
    failure.hide("sk-1")
    assert (failure.raw or "")[RAW_CHARS_MAX - 2 :] == "[h"


DATE = "Thu, 01 Jan 1970 00:02:00 GMT"
RETRIES: list[tuple[str | None, float | None]] = [
    *[(None, None), ("", None), ("soon", None), ("nan", None), ("-1", None), ("86400.5", None)],
    *[("0", 0.0), ("1.5", 1.5), ("86400", 86_400.0), (DATE, 20.0)],
    ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
]


@pytest.mark.parametrize(("said", "seconds"), RETRIES)
def test_when_to_come_back(said: str | None, seconds: float | None) -> None:
    assert parse_retry_after(said, now_s=100.0) == seconds


DOOR: list[tuple[type[OutboundError], Next]] = [
    *[(kind, SICK) for kind in (ConnectFailed, ConnectTimeout, Disconnected, FirstByteTimeout)],
    *[(kind, SICK) for kind in (IdleTimeout, MalformedReply)],
    (BodyTooLarge, WELL),
]


@pytest.mark.parametrize(("kind", "expected"), DOOR)
def test_a_connection(kind: type[OutboundError], expected: Next) -> None:
    failure = from_outbound_error(kind("what happened", phase="body"))
    late = kind in (ConnectTimeout, FirstByteTimeout, IdleTimeout)
    assert what_next(failure) == expected
    assert failure.status == failure.caller_status == (524 if late else 502)
    assert failure.error_type == ("timeout" if late else UNAVAILABLE)
    assert failure.raw == "what happened"


def test_a_2xx_that_is_no_answer() -> None:
    assert what_next(malformed_answer("an answer of type 'text/html'")) == WELL
    assert malformed_answer("empty").raw == "empty"
    assert malformed_answer("odd", raw=b"<html>").raw == "<html>"
    assert (refused_answer().caller_status, what_next(refused_answer())) == (403, NO)
    odd = from_error_object("odd")
    assert (odd.raw, odd.provider_code, what_next(odd)) == ("odd", None, SICK)


# What error bodies say, whatever their shape.
MANY = [{"loc": ["body", str(n)], "msg": "bad"} for n in range(7)]


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "no", "code": "c"}}, "no", "c"),
        ({"error": {"message": "no", "type": "t"}}, "no", "t"),
        ({"error": {"message": "no", "code": 7}}, "no", "7"),
        ({"error": "no"}, "no", None),
        ({"message": "no"}, "no", None),
        ({"detail": "no"}, "no", None),
        ({"error": {"detail": "no"}}, "no", None),
        ({"error": None, "detail": "no"}, "no", None),
        ({"detail": [{"loc": ["body", "questions", "q"], "msg": "bad"}]}, "questions.q: bad", None),
        ({"detail": [{"loc": ["body"], "msg": "bad"}]}, "bad", None),
        ({"detail": [{"loc": ["query", 0, "body"], "msg": "bad"}]}, "query.0.body: bad", None),
        ({"detail": [{"msg": "one"}, {"loc": "x", "msg": "two"}, "more"]}, "one; two; more", None),
        ({"detail": [{"loc": ["body"]}, {"msg": 1}, 3, None]}, "", None),
        ({"detail": {"reason": "no"}}, "", None),
        ({"detail": MANY}, "; ".join(f"{n}: bad" for n in range(5)), None),
        ([], "", None),
        ("odd", "", None),
    ],
)
def test_message_and_code(body: Any, message: str, code: str | None) -> None:
    assert read_error_body(json.dumps(body).encode())[:2] == (message, code)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": NaN}'])
def test_what_is_no_json_says_nothing(body: bytes) -> None:
    assert read_error_body(body) == ("", None, None)


REFUSED_CALL: dict[str, Any] = {
    "message": "Tool choice is required, but model did not call a tool",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": "Hm.",
}


def test_what_a_model_wrote_and_its_provider_refuses_is_told() -> None:
    whole = from_status(400, {}, json.dumps({"error": REFUSED_CALL}).encode())
    streamed = from_error_object({**REFUSED_CALL, "status_code": 400})
    for failure in (whole, streamed):
        assert (failure.caller_status, failure.error_type) == (400, "invalid_request")
        assert failure.message == REFUSED_CALL["message"]
        assert (failure.provider_code, failure.failed_generation) == ("tool_use_failed", "Hm.")
        assert failure.elsewhere is False
        assert "failed_generation" in str(failure.raw)
    assert from_error_object({"failed_generation": 5}).failed_generation is None


def test_a_failure_within_an_answer_keeps_its_spelling() -> None:
    failure = from_error_object({"message": "Too LONG", "code": "string_too_long"})
    assert failure.message == "Too LONG"
