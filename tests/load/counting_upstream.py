"""An upstream that counts: `python -m tests.load.counting_upstream` prints its URL.

The user's message is an `Errand` as JSON. A stream's tokens are the numbers from 0 on, each with a
due time of its own, so that a reader sees what was lost or changed places.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from socket import socket
from typing import Any

from gevent import sleep
from gevent.server import StreamServer

_READ_BYTES = 65_536
_ENDED = b"0\r\n\r\n"


@dataclass(frozen=True)
class Errand:
    """What one request is to get. `fault` is "", "busy" (503), "cut" or "garbage"."""

    tokens: int = 1
    per_s: float = 0.0
    first_s: float = 0.0
    fault: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    server = StreamServer(("127.0.0.1", 0), _serve, backlog=2048)
    server.start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


def _serve(client: socket, address: Any) -> None:
    left = b""
    try:
        while True:
            body, left = _request(client, left)
            asked = json.loads(body)
            errand = Errand(**json.loads(asked["messages"][-1]["content"]))
            sleep(errand.first_s)
            if not _answer(client, errand, streams=bool(asked.get("stream"))):
                return
    except (OSError, EOFError):
        return


def _request(client: socket, data: bytes) -> tuple[bytes, bytes]:
    """The body of the next request and what was read behind it."""
    while b"\r\n\r\n" not in data:
        data += _more(client)
    head, _, data = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(data) < length:
        data += _more(client)
    return data[:length], data[length:]


def _more(client: socket) -> bytes:
    data = client.recv(_READ_BYTES)
    if not data:
        raise EOFError
    return data


def _answer(client: socket, errand: Errand, *, streams: bool) -> bool:
    """Whether the connection may be used again."""
    if errand.fault == "busy":
        client.sendall(_whole(503, {"error": {"message": "busy", "code": 503}}))
        return True
    if errand.fault == "cut" and not streams:
        return False
    if not streams:
        client.sendall(_whole(200, _completion(errand)))
        return True
    client.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for piece in _paced(errand):
        client.sendall(piece)
    if errand.fault:
        return False
    client.sendall(_event(_usage(errand)) + _framed(b"data: [DONE]\n\n") + _ENDED)
    return True


def _paced(errand: Errand) -> Iterator[bytes]:
    """The tokens, each when it is due; half of them where the stream is to break."""
    began_at = time.monotonic()
    for number in range(errand.tokens // 2 if errand.fault else errand.tokens):
        if errand.per_s and (wait_s := began_at + number / errand.per_s - time.monotonic()) > 0:
            sleep(wait_s)
        yield _event(_chunk({"content": f"{number} "}, None))
    if errand.fault == "garbage":
        yield _framed(b"data: {not json\n\n")


def _chunk(delta: dict[str, str], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "up", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def _usage(errand: Errand) -> dict[str, Any]:
    return _chunk({}, "stop") | {"usage": _counts(errand)}


def _counts(errand: Errand) -> dict[str, int]:
    return {
        "prompt_tokens": 10,
        "completion_tokens": errand.tokens,
        "total_tokens": 10 + errand.tokens,
    }


def _completion(errand: Errand) -> dict[str, Any]:
    message = {"role": "assistant", "content": "counted"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "up", "model": "m", "choices": [choice], "usage": _counts(errand)}


def _whole(status: int, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def _event(chunk: dict[str, Any]) -> bytes:
    return _framed(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    main()
