"""Requests as bytes, and whatever comes back: one JSON answer in the API's envelope, or the end."""

import json
from contextlib import closing, suppress
from typing import Any

from routing.simulator.testing import RawConnection
from tests.support.server import GatewayServer

CHAT = "/api/v1/chat/completions"
HOST = b"Host: gateway\r\n"


def head_bytes(
    *lines: str, method: str = "POST", path: str = CHAT, key: str = "", close: bool = False
) -> bytes:
    """A request's head with its empty line; `lines` are further fields."""
    fields = ["Host: gateway", *lines]
    if key:
        fields.append(f"Authorization: Bearer {key}")
    if close:
        fields.append("Connection: close")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode("latin-1")


def begin_request(
    port: int, key: str, body: Any, *lines: str, path: str = CHAT, timeout_s: float = 20.0
) -> RawConnection:
    """A request on a connection of its own, which the test can drop or read as it comes."""
    data = json.dumps(body).encode()
    wire = RawConnection(port, timeout_s)
    wire.send(head_bytes(f"Content-Length: {len(data)}", *lines, path=path, key=key) + data)
    return wire


def chunk_body(data: bytes) -> bytes:
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def envelope(wire: RawConnection) -> tuple[int, dict[str, Any]]:
    """Status and `error` object of the next answer, which must be JSON as the API promises it."""
    status, headers = wire.head()
    assert headers["content-type"] == "application/json"
    error: dict[str, Any] = json.loads(wire.body(headers))["error"]
    assert error["code"] == status
    assert error["message"]
    assert error["metadata"]["error_type"]
    return status, error


def answer_to(server: GatewayServer, request: bytes) -> tuple[int, dict[str, Any]]:
    """What answers these bytes, sent on a connection of their own."""
    with closing(RawConnection(int(server.env["PORT"]))) as wire:
        # Refused before it was sent whole, it is answered all the same.
        with suppress(OSError):
            wire.send(request)
        return envelope(wire)
