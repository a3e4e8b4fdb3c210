"""The bundled load generator: `python -m tests.load.generator --connections 64 --seconds 5 URL`.

Posts LOAD_BODY with the key LOAD_KEY and the lines of LOAD_HEADERS over connections that stay open,
as `wrk` would, at a much higher price in CPU. Prints the same line of JSON as `wrk.lua`.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from urllib.parse import urlsplit

from gevent import joinall, spawn
from gevent.socket import create_connection

from tests.load.figures import percentile
from tests.load.generators import Load

_ANSWER_S = 10.0
_READ_BYTES = 65_536
_LENGTH = b"content-length:"


class Caller:
    """One connection that asks and waits for the answer, over and over."""

    def __init__(self, url: str, request: bytes) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._request = request
        self.latencies_ms: list[float] = []
        self.failed = 0

    def run(self, until: float) -> None:
        """Ask until that monotonic moment; the answer under way is still awaited."""
        while time.monotonic() < until:
            try:
                self._keep_asking(until)
            except OSError:
                self.failed += 1

    def _keep_asking(self, until: float) -> None:
        with create_connection(self._address, timeout=_ANSWER_S) as connection:
            while (asked_at := time.monotonic()) < until:
                connection.sendall(self._request)
                received = b""
                while (size := answer_bytes(received)) is None or len(received) < size:
                    piece = connection.recv(_READ_BYTES)
                    if not piece:
                        raise ConnectionError("the answer broke off")
                    received += piece
                self.latencies_ms.append((time.monotonic() - asked_at) * 1e3)
                self.failed += not received.startswith(b"HTTP/1.1 2")


def answer_bytes(received: bytes) -> int | None:
    """The length of head and body together, once the head is there."""
    head, end, _ = received.partition(b"\r\n\r\n")
    if not end:
        return None
    for line in head.lower().split(b"\r\n"):
        if line.startswith(_LENGTH):
            return len(head) + len(end) + int(line.removeprefix(_LENGTH))
    raise ConnectionError("an answer without Content-Length")


def request_bytes(url: str, *, key: str, body: str, further: str = "") -> bytes:
    """The whole POST; `further` holds more headers as `header_lines` writes them."""
    parts, data = urlsplit(url), body.encode()
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        + further.replace("\n", "\r\n")
        + "\r\n"
    )
    return head.encode() + data


def load(url: str, request: bytes, *, connections: int, seconds: float) -> Load:
    """Load `url` for that long over so many connections."""
    callers = [Caller(url, request) for _ in range(connections)]
    started_at = time.monotonic()
    jobs = [spawn(caller.run, started_at + seconds) for caller in callers]
    joinall(jobs, timeout=seconds + _ANSWER_S, raise_error=True)
    took_s = time.monotonic() - started_at
    latencies_ms = [latency for caller in callers for latency in caller.latencies_ms] or [0.0]
    return Load(
        requests=sum(len(caller.latencies_ms) for caller in callers),
        seconds=took_s,
        p50_ms=percentile(latencies_ms, 50),
        p99_ms=percentile(latencies_ms, 99),
        failed=sum(caller.failed for caller in callers),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    asked = parser.parse_args(argv)
    request = request_bytes(
        asked.url,
        key=os.environ["LOAD_KEY"],
        body=os.environ["LOAD_BODY"],
        further=os.environ["LOAD_HEADERS"],
    )
    done = load(asked.url, request, connections=asked.connections, seconds=asked.seconds)
    sys.stdout.write(json.dumps(asdict(done)) + "\n")


if __name__ == "__main__":
    main()
