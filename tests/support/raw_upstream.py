"""A scripted upstream on bare sockets: exact bytes, pauses, gates, and a record of who left when.

Which script plays is chosen by the `model` of the request, so that one upstream serves many tests.
"""

import json
import select
import ssl
import threading
import time
from collections.abc import Callable
from socket import SHUT_WR
from typing import Any

from tests.gateway.outbound.raw_upstream import PATIENCE_S, Peer, RawUpstream, chunk

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n"
EVENTS, JSON = b"text/event-stream", b"application/json"


class CallerLeft(Exception):
    """Ends a script: the gateway has closed its end."""


class Visit:
    """One request, and the upstream's end of its connection. Times are monotonic seconds."""

    def __init__(self, peer: Peer, request: bytes) -> None:
        self._peer, self.sock = peer, peer.sock
        self.connection = peer.number
        self.head, _, self.body = request.partition(b"\r\n\r\n")
        self.model = str(json.loads(self.body)["model"]) if self.body else ""
        self.came_at = time.monotonic()
        self.closed_at: float | None = None
        self.closed = threading.Event()
        self.bytes_sent = 0

    def send(self, data: bytes) -> None:
        """Raises CallerLeft when the gateway has closed its end."""
        try:
            self.sock.sendall(data)
        except OSError as error:
            self._note_leave()
            raise CallerLeft from error
        self.bytes_sent += len(data)

    def flood(self, data: bytes, *, bytes_max: int = 1 << 40) -> None:
        """The same for ever, as fast as it is taken."""
        while self.bytes_sent < bytes_max:
            self.send(data)

    def drip(self, data: bytes, *, every_s: float) -> None:
        """The same for ever, one at a time."""
        while True:
            self.send(data)
            self.silence(every_s)

    def silence(self, at_most_s: float = PATIENCE_S) -> None:
        """Say nothing for so long. Raises CallerLeft as soon as the gateway closes its end."""
        ready, _, _ = select.select([self.sock], [], [], at_most_s)
        if ready and not self._more():
            self._note_leave()
            raise CallerLeft

    def wait_open(self, gate: threading.Event) -> None:
        """Go on when the test says so."""
        assert gate.wait(PATIENCE_S)

    def events(self, *payloads: Any) -> None:
        self.send(b"".join(event(payload) for payload in payloads))

    def end(self) -> None:
        """No more bytes from here; the other direction stays open."""
        try:
            self.sock.shutdown(SHUT_WR)
        except OSError as error:
            self._note_leave()
            raise CallerLeft from error

    def reset(self) -> None:
        """Close with RST."""
        self._peer.reset()

    def _more(self) -> bytes:
        try:
            return self.sock.recv(65_536)
        except OSError:
            return b""

    def _note_leave(self) -> None:
        self.closed_at = time.monotonic()
        self.closed.set()


Script = Callable[[Visit], None]


class Stage(RawUpstream):
    """Plays scripts. After one that returns, the connection takes the next request."""

    def __init__(self, tls_context: ssl.SSLContext | None = None) -> None:
        super().__init__(self._perform, tls_context)
        self._scripts: dict[str, Script] = {}
        self._visits: list[Visit] = []
        self._came = threading.Condition()

    def play(self, model: str, script: Script) -> None:
        """Requests for this model meet this script from now on, and are counted from here."""
        with self._came:
            self._visits = [visit for visit in self._visits if visit.model != model]
            self._scripts[model] = script

    def visits(self, model: str) -> list[Visit]:
        with self._came:
            return [visit for visit in self._visits if visit.model == model]

    def wait_visit(self, model: str, nth: int = 1) -> Visit:
        """The nth request for this model, once it has come."""
        with self._came:
            assert self._came.wait_for(lambda: self._count(model) >= nth, PATIENCE_S)
        return self.visits(model)[nth - 1]

    def _count(self, model: str) -> int:
        return sum(visit.model == model for visit in self._visits)

    def _perform(self, peer: Peer) -> None:
        while (request := peer.read_request()) is not None:
            visit = Visit(peer, request)
            with self._came:
                self._visits.append(visit)
                self._came.notify_all()
            try:
                self._scripts[visit.model](visit)
            except CallerLeft:
                return
            if visit.sock.fileno() < 0:
                return


def event(payload: Any) -> bytes:
    """One server-sent event: text as it stands, anything else as JSON."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return f"data: {text}\n\n".encode()


def content(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"prompt_tokens": 50, "completion_tokens": 70, "total_tokens": 120}
END = event(FINISH) + event({"choices": [], "usage": USAGE}) + event("[DONE]")


def head(content_type: bytes = EVENTS, *more: bytes) -> bytes:
    """A head whose body ends with the connection, unless `more` says otherwise."""
    return HEAD % (content_type, b"".join(line + b"\r\n" for line in more))


def build_answer(body: bytes, content_type: bytes = JSON) -> bytes:
    """A whole answer with a true length."""
    return head(content_type, b"Content-Length: %d" % len(body)) + body


def answer_json(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE}
    ).encode()


CHUNKED = b"Transfer-Encoding: chunked"


def good_stream(text: str) -> Script:
    """A stream that is as it should be, on a connection that can be used again."""

    def script(visit: Visit) -> None:
        body = event(content(text)) + END
        visit.send(head(EVENTS, CHUNKED) + chunk(body) + chunk(b""))

    return script
