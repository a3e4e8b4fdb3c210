"""What providers' error bodies say, whatever their shape."""

import json
from typing import Any

import pytest

from routing.upstreams.failures import from_error_object, from_status, read_error_body

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
        assert (failure.told_status, failure.error_type) == (400, "invalid_request")
        assert failure.message == REFUSED_CALL["message"]
        assert (failure.provider_code, failure.failed_generation) == ("tool_use_failed", "Hm.")
        assert failure.elsewhere is False
        assert "failed_generation" in str(failure.raw)


def test_a_failure_within_an_answer_keeps_its_spelling() -> None:
    failure = from_error_object({"message": "Too LONG", "code": "string_too_long"})
    assert failure.message == "Too LONG"
