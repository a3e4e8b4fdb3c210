"""What the server refuses below and beside the application: always JSON, never a page."""

import json
from typing import Any

import pytest

from routing.simulator.testing import Wire
from tests.support.server import GatewayServer

PATH = "/api/v1/chat/completions"
HOST = b"Host: gateway\r\n"


def refusal(gateway: GatewayServer, request: bytes) -> tuple[int, Any]:
    """Status and error object of whatever answers these bytes."""
    wire = Wire(int(gateway.env["PORT"]))
    try:
        wire.send(request)
        status, headers = wire.head()
        assert headers["content-type"] == "application/json"
        body = json.loads(wire.body(headers))
    finally:
        wire.close()
    assert body["error"]["code"] == status
    assert body["error"]["metadata"]["error_type"]
    return status, body["error"]


BAD_REQUESTS = {
    "no request line": b"\x00\x01\x02\r\n\r\n",
    "a line of one word": b"HELLO\r\n\r\n",
    "an odd version": b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n",
    "an odd method": b"G\x01T /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "a header without a colon": b"GET /healthz HTTP/1.1\r\nHost gateway\r\n\r\n",
    "a header name with a space": b"GET /healthz HTTP/1.1\r\nX Y: 1\r\n" + HOST + b"\r\n",
    "a header with NUL": b"GET /healthz HTTP/1.1\r\nX: a\x00b\r\n" + HOST + b"\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nX: a\r\n b\r\n" + HOST + b"\r\n",
    "length and encoding": b"POST /x HTTP/1.1\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n" + HOST + b"\r\n0\r\n\r\n",
    "two lengths": b"POST /x HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n"
    + HOST
    + b"\r\nabcde",
    "a length that is none": b"POST /x HTTP/1.1\r\nContent-Length: -4\r\n" + HOST + b"\r\n",
    "an unknown encoding": b"POST /x HTTP/1.1\r\nTransfer-Encoding: cow\r\n" + HOST + b"\r\n",
    "an odd expectation": b"GET /healthz HTTP/1.1\r\nExpect: odd\r\n" + HOST + b"\r\n",
    "a long line": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("request_", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_what_is_no_request_is_a_json_400(gateway: GatewayServer, request_: bytes) -> None:
    status, error = refusal(gateway, request_)

    assert status in {400, 501}
    assert error["message"]


@pytest.mark.parametrize(
    "headers",
    [b"X-Long: " + b"v" * 9000 + b"\r\n", b"".join(b"X-%d: v\r\n" % n for n in range(150))],
    ids=["one of 9,000 bytes", "150 of them"],
)
def test_headers_over_the_limits_are_a_json_431(gateway: GatewayServer, headers: bytes) -> None:
    request_ = b"GET /healthz HTTP/1.1\r\n" + HOST + headers + b"\r\n"

    status, error = refusal(gateway, request_)

    assert status in {400, 431}
    assert error["metadata"]["error_type"] == "invalid_request"


def test_a_broken_chunk_is_a_json_400(gateway: GatewayServer, account: Any) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nAuthorization: Bearer {account().api_key}\r\n".encode()

    status, _ = refusal(
        gateway, head + HOST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n"
    )

    assert status == 400


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_chat_is_for_posting_only(gateway: GatewayServer, method: str) -> None:
    answer = gateway.request(method, PATH)

    assert answer.status_code == 405
    assert answer.json()["error"]["metadata"]["error_type"] == "invalid_request"
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/chat/completions/extra",
        "/api/v1//chat/completions",
        "/api/v1/models/..%2f..%2fsecret/x/endpoints",
        "/api/v1/model/a/b/c",
        "/api/v2/models",
        "/%ff%fe",
        "/" + "a/" * 500,
    ],
)
def test_unknown_paths_are_a_json_404(gateway: GatewayServer, path: str) -> None:
    status, error = refusal(gateway, f"GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n".encode())

    assert (status, error["metadata"]["error_type"]) == (404, "not_found")
