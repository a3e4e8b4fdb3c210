"""gunicorn's own refusals, byte for byte."""

import json

import pytest
from gunicorn.http import errors as http_errors

from gateway.http.refusals import HeadTooSlow, refusal, refusal_bytes

REFUSALS: list[tuple[BaseException, int, str]] = [
    (http_errors.LimitRequestHeaders("too many"), 431, "Request header fields too large"),
    (http_errors.LimitRequestLine(5000, 4094), 400, "Request line too long"),
    (http_errors.InvalidHeader("x"), 400, "Malformed HTTP request"),
    (http_errors.InvalidRequestLine("x"), 400, "Malformed HTTP request"),
    (http_errors.InvalidHTTPVersion("x"), 400, "Malformed HTTP request"),
    (http_errors.InvalidRequestMethod("x"), 400, "Malformed HTTP request"),
    (http_errors.InvalidHeaderName("x"), 400, "Malformed HTTP request"),
    (http_errors.InvalidChunkSize(b"x"), 400, "Malformed HTTP request"),
    (HeadTooSlow(), 408, "The request head took too long"),
    (ValueError("a secret of ours"), 500, "Internal Server Error"),
]


@pytest.mark.parametrize(("error", "status", "message"), REFUSALS)
def test_a_refusal_is_a_whole_json_response_that_ends_the_connection(
    error: BaseException, status: int, message: str
) -> None:
    assert refusal(error) == (status, message)

    head, body = refusal_bytes(status, message).split(b"\r\n\r\n", 1)

    lines = head.decode().split("\r\n")
    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    assert lines[1:] == [
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    error_type = {408: "timeout", 500: "server"}.get(status, "invalid_request")
    assert json.loads(body) == {
        "error": {"code": status, "message": message, "metadata": {"error_type": error_type}}
    }
