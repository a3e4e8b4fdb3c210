"""For tests: a simulated upstream in a process of its own, and a client that hides nothing."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from routing.simulator.encoding import JsonObject

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "routing.simulator"]
STOP_S = 10.0
CONTROL_S = 300.0
READ_BYTES = 65_536
HELLO = [{"role": "user", "content": "Hello there"}]
BODIES: dict[str, JsonObject] = {
    "chat/completions": {"messages": HELLO},
    "messages": {"messages": HELLO, "max_tokens": 1024},
    "messages/count_tokens": {"messages": HELLO},
    "responses": {"input": "Hello there"},
    "embeddings": {"input": "Hello there"},
    "systemone": {
        "state": "Hello there",
        "questions": {"greets": {"type": "noul", "instructions": "Is this a greeting?"}},
    },
}
CREDENTIALS = {
    "Authorization": "Bearer sk-simulated",
    "x-api-key": "sk-simulated",
    "anthropic-version": "2023-06-01",
}


class SimulatedUpstream:
    """Start with `with SimulatedUpstream() as upstream:`; it ends with the block."""

    def __init__(self, *options: str) -> None:
        # Plain pipes: the port comes from the ready line, so nothing has to be polled.
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module.
            [*COMMAND, *options], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url: str = json.loads(line)["url"] if line else ""
        self.port = urlsplit(self.url).port or 0
        self._cleared_n = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """Ask it to end. Returns its exit status."""
        self.process.terminate()
        status = self.process.wait(STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def control(self, method: str, path: str, body: object = None) -> Any:
        """One request to the control plane. Raises ValueError when it is refused."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=CONTROL_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(answer["error"])
        return answer

    def script(self, persona: str, *steps: JsonObject, repeat: bool = False) -> None:
        self.control("PUT", f"/_script/{persona}", {"steps": list(steps), "repeat": repeat})

    def verdicts(self, persona: str, *verdicts: JsonObject) -> None:
        """What it thinks of questions, until `clear`."""
        self.control("PUT", f"/_verdicts/{persona}", {"verdicts": list(verdicts)})

    def open_gate(self, name: str) -> None:
        self.control("POST", f"/_gate/{name}")

    def wait_gate(self, name: str) -> None:
        """Wait until an answer is held at the gate."""
        assert self.control("GET", f"/_gate/{name}?wait=reached")["reached"]

    def requests(self, persona: str | None = None, since: int = 0) -> list[JsonObject]:
        """What it saw, newest last."""
        wanted = f"&persona={persona}" if persona else ""
        found: list[JsonObject] = self.control("GET", f"/_log?since={since}{wanted}")["requests"]
        return found

    def clear(self) -> None:
        """Forget scripts, gates and log; requests are counted from here."""
        self.control("DELETE", "/_script")
        self._cleared_n = self.control("DELETE", "/_log")["last_n"]

    def wait(self, nth: int = 1, state: str = "ended", timeout_s: float = 60.0) -> JsonObject:
        """The nth request since `clear`, once it is `received`, `ended` or `disconnected`."""
        wanted = f"wait={state}&n={self._cleared_n + nth}&timeout={timeout_s}"
        answer = self.control("GET", f"/_log?{wanted}")
        assert not answer["timed_out"], f"request {nth} was not {state} within {timeout_s} s"
        entry: JsonObject = answer["requests"][0]
        return entry

    def chat_bytes(self, model: str, persona: str = "default", **body: object) -> bytes:
        """A chat request as bytes, for a `RawConnection`."""
        return self.request_bytes("chat/completions", model, persona, {}, **body)

    def request_bytes(
        self,
        resource: str,
        model: str,
        persona: str = "default",
        headers: dict[str, str] | None = None,
        **body: object,
    ) -> bytes:
        """A request in the format of a resource, as bytes. A body value of None is left out."""
        whole = {"model": model, **BODIES[resource], **body}
        data = json.dumps({k: v for k, v in whole.items() if v is not None}).encode()
        sent = {"Host": "simulated", **(CREDENTIALS if headers is None else headers)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        head = f"POST /{persona}/v1/{resource} HTTP/1.1\r\n{lines}"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    @contextmanager
    def wire(self) -> "Iterator[RawConnection]":
        wire = RawConnection(self.port)
        try:
            yield wire
        finally:
            wire.close()


class RawConnection:
    """One TCP connection, read byte by byte as it comes. Raises what the socket raises."""

    def __init__(self, port: int, timeout_s: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.received = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def more(self) -> bytes:
        """The next bytes; none when the server has closed."""
        data = self.socket.recv(READ_BYTES)
        self.received += data
        return data

    def read_until(self, mark: bytes) -> bytes:
        """Take out everything up to and including `mark`. Raises EOFError when it never came."""
        while mark not in self.received:
            if not self.more():
                raise EOFError(bytes(self.received))
        end = self.received.index(mark) + len(mark)
        taken = bytes(self.received[:end])
        del self.received[:end]
        return taken

    def to_end(self) -> bytes:
        """Everything until the server closes."""
        while self.more():
            pass
        return bytes(self.received)

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, names in lower case."""
        first, *lines = self.read_until(b"\r\n\r\n").decode("latin-1").strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in pairs}

    def exactly(self, length: int) -> bytes:
        while len(self.received) < length:
            if not self.more():
                raise EOFError(bytes(self.received))
        taken = bytes(self.received[:length])
        del self.received[:length]
        return taken

    def body(self, headers: dict[str, str]) -> bytes:
        """The whole body. Raises EOFError when the connection ended before it did."""
        if "content-length" in headers:
            return self.exactly(int(headers["content-length"]))
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """The chunks of a chunked body. Raises EOFError when the last one never came."""
        while size := int(self.read_until(b"\r\n"), 16):
            yield self.exactly(size + 2)[:size]
        self.exactly(2)

    def close(self) -> None:
        self.socket.close()
