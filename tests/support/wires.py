"""Requests as bytes, and whatever comes back: one JSON answer in the API's envelope, or the end."""

import json
from contextlib import closing, suppress
from typing import Any

from routing.simulator.testing import Wire
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


def chunked(data: bytes, *, chunk_bytes: int = 65_536) -> bytes:
    pieces = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def envelope(wire: Wire) -> tuple[int, dict[str, Any]]:
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
    with closing(Wire(int(server.env["PORT"]))) as wire:
        # Refused before it was sent whole, it is answered all the same.
        with suppress(OSError):
            wire.send(request)
        return envelope(wire)
