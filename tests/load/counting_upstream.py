"""An upstream that counts: `python -m tests.load.counting_upstream` prints its URL.

The user's message is an `Errand` as JSON. A stream's tokens are the numbers from 0 on, each with a
due time of its own. So a reader sees what was lost or changed places.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from socket import socket
from typing import Any, BinaryIO

from gevent import sleep
from gevent.server import StreamServer

_CHUNK = {"object": "chat.completion.chunk"}
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True)
class Errand:
    """What one request is to get. `fault` is "", "busy" (503), "cut" or "garbage"."""

    tokens: int = 1
    per_s: float = 0.0
    first_s: float = 0.0
    fault: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self))


def _serve(client: socket, address: Any) -> None:
    try:
        with client.makefile("rb") as reader:
            while body := _request(reader):
                asked = json.loads(body)
                errand = Errand(**json.loads(asked["messages"][-1]["content"]))
                sleep(errand.first_s)
                if not _answer(client, errand, streams=bool(asked.get("stream"))):
                    return
    except OSError:
        return


def _request(reader: BinaryIO) -> bytes:
    """The body of the next request; empty at the end."""
    length = 0
    while (line := reader.readline().lower()) not in (b"\r\n", b""):
        if line.startswith(b"content-length:"):
            length = int(line.removeprefix(b"content-length:"))
    return reader.read(length)


def _answer(client: socket, errand: Errand, *, streams: bool) -> bool:
    """Whether the connection may be used again."""
    if errand.fault == "busy":
        client.sendall(_build_answer(503, {"error": {"message": "busy", "code": 503}}))
    elif streams:
        client.sendall(_STREAM)
        _send_paced(client, errand)
        if errand.fault:
            return False
        last = _part({"delta": {}, "finish_reason": "stop"}, **_CHUNK, usage=_usage(errand))
        client.sendall(_event(last) + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    elif errand.fault == "cut":
        return False
    else:
        message = {"role": "assistant", "content": "counted"}
        choice = {"message": message, "finish_reason": "stop"}
        client.sendall(_build_answer(200, _part(choice, usage=_usage(errand))))
    return True


def _send_paced(client: socket, errand: Errand) -> None:
    """The tokens, each when it is due; half of them where the stream is to break."""
    began_at = time.monotonic()
    for number in range(errand.tokens // 2 if errand.fault else errand.tokens):
        if errand.per_s and (wait_s := began_at + number / errand.per_s - time.monotonic()) > 0:
            sleep(wait_s)
        choice = {"delta": {"content": f"{number} "}, "finish_reason": None}
        client.sendall(_event(_part(choice, **_CHUNK)))
    if errand.fault == "garbage":
        client.sendall(_frame(b"data: {not json\n\n"))


def _part(choice: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "up", "model": "m", "choices": [{"index": 0, **choice}], **more}


def _usage(errand: Errand) -> dict[str, int]:
    total = 10 + errand.tokens
    return {"prompt_tokens": 10, "completion_tokens": errand.tokens, "total_tokens": total}


def _build_answer(status: int, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def _event(chunk: dict[str, Any]) -> bytes:
    return _frame(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    server = StreamServer(("127.0.0.1", 0), _serve, backlog=2048)
    server.start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
