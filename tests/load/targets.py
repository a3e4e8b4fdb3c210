"""Where requests go, and one request: through a client, or as bytes for a socket."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests

_ANSWER_S = 30.0
READ_BYTES = 65_536
LAST_CHUNK = b"\r\n0\r\n\r\n"


class LoadFailed(Exception):
    """The load generator broke, too much of its load did, or an answer is not what was asked."""


@dataclass(frozen=True)
class Target:
    """Where each request goes, with which key, body and further headers. An empty key is none."""

    url: str
    key: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 80


def post_target(target: Target) -> requests.Response:
    """What one POST is answered with, read to its end. Raises `LoadFailed` without an answer."""
    headers = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
    headers |= target.headers
    try:
        return requests.post(target.url, target.body, headers=headers, timeout=_ANSWER_S)
    except requests.RequestException as error:
        raise LoadFailed(f"no answer from {target.url}: {error}") from error


def fetch_answer(target: Target) -> dict[str, Any]:
    """The JSON that one POST is answered with. Raises `LoadFailed` for anything else."""
    response = post_target(target)
    if response.status_code != 200:
        told = response.content[:500]
        raise LoadFailed(f"{target.url} answered {response.status_code}: {told!r}")
    try:
        return dict(json.loads(response.content))
    except ValueError as error:
        raise LoadFailed(f"{target.url} answered no JSON: {response.content[:500]!r}") from error


def request_bytes(target: Target, **headers: str) -> bytes:
    """The whole POST, with still more `headers`."""
    parts, data = urlsplit(target.url), target.body.encode()
    credential = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    sent = {
        "Host": parts.netloc,
        **credential,
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **target.headers,
        **headers,
    }
    lines = (f"{name}: {value}" for name, value in sent.items())
    return "\r\n".join([f"POST {parts.path} HTTP/1.1", *lines, "", ""]).encode() + data


def is_whole(received: bytes) -> bool:
    """Whether an answer is there to its end, in chunks or with a length."""
    head, end, body = received.partition(b"\r\n\r\n")
    if end and b"transfer-encoding: chunked" in head.lower():
        return received.endswith(LAST_CHUNK)
    _, is_sized, size = head.lower().partition(b"\r\ncontent-length:")
    if end and not is_sized:
        raise ConnectionError("an answer without Content-Length")
    return bool(end) and len(body) >= int(size.split(b"\r\n")[0])


def read_answer(connection: Any, seen: Callable[[bytes], None] = lambda _: None) -> bytes:
    """The next answer on a kept connection, to its end; `seen` is told what is there so far.

    Raises ConnectionError, "ended" where not a byte came.
    """
    received = b""
    while not is_whole(received):
        piece = connection.recv(READ_BYTES)
        if not piece:
            raise ConnectionError("the answer broke off" if received else "ended")
        received += piece
        seen(received)
    return received
