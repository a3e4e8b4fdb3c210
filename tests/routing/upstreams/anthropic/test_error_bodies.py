"""HTTP errors as providers of the messages API word them."""

import orjson
import pytest

from routing.upstreams.failures import from_status


@pytest.mark.parametrize(
    ("status", "kind", "message", "told", "error_type", "elsewhere"),
    [
        (400, "invalid_request_error", "max_tokens: Field required", 400, "invalid_request", False),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 200005 tokens > 200000 maximum",
            400,
            "context_length_exceeded",
            True,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000",
            400,
            "context_length_exceeded",
            True,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the API.",
            502,
            "provider_unavailable",
            True,
        ),
        (401, "authentication_error", "invalid x-api-key", 502, "provider_unavailable", True),
        (413, "request_too_large", "too large a request", 413, "payload_too_large", True),
        (429, "rate_limit_error", "slow down", 429, "rate_limit_exceeded", True),
        (500, "api_error", "Internal server error", 502, "provider_unavailable", True),
        (529, "overloaded_error", "Overloaded", 529, "provider_overloaded", True),
    ],
)  # fmt: skip
def test_errors(
    status: int, kind: str, message: str, told: int, error_type: str, elsewhere: bool
) -> None:
    error = {"type": kind, "message": message}
    body = orjson.dumps({"type": "error", "error": error, "request_id": "req_1"})
    failure = from_status(status, {}, body)
    assert (failure.told_status, failure.error_type) == (told, error_type)
    assert failure.elsewhere == elsewhere
    assert failure.raw == body.decode()
