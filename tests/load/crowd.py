"""A crowd of callers in a process of its own: `python -m tests.load.crowd PLAN`.

PLAN is a `Plan` as JSON. It prints the line `open` once every stream has its first token, or has
ended, and the first requests are on their way. In the end it prints a line of JSON: a `Crowd` in
figures.
"""

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from gevent import joinall, sleep, spawn
from gevent.lock import Semaphore
from gevent.pool import Pool
from gevent.select import select
from gevent.socket import create_connection

from tests.load.counting_upstream import Errand
from tests.load.figures import percentile
from tests.load.targets import READ_BYTES, Target, read_answer, request_bytes

_ANSWER_S = 300.0
_SHOWN_MAX = 10
# So many requests show that the requests are on their way.
_BEGUN = 20
_LAST_CHUNK = b"\n0\r\n\r\n"
_FAULTS = ("busy", "cut", "garbage")


@dataclass(frozen=True)
class Plan:
    """Streams are opened within `open_s`; requests are sent at `asks_per_s` for `asks_s`."""

    url: str
    key: str
    model: str
    streams: int = 0
    tokens: int = 20
    tokens_per_s: float = 20.0
    open_s: float = 1.0
    asks_per_s: float = 0.0
    asks_s: float = 0.0
    asks_max: int = 200
    upstream_s: float = 0.0
    fault_share: float = 0.0


@dataclass
class Crowd:
    """What became of everyone. Times are milliseconds, counted from when a request was due.

    A stream is `whole`, `told` (an error chunk ended it, and what came before was in order), or in
    `broken` with the reason. `asked` counts answers by status; `lost` holds what broke instead;
    `stale` counts kept connections that had ended when they were used again.
    """

    whole: int = 0
    told: int = 0
    broken: list[str] = field(default_factory=list)
    first_token_ms: list[float] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    asks_took_s: float = 0.0
    stale: int = 0
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)

    def told_in_figures(self) -> dict[str, Any]:
        """The same with percentiles and the first few of each list."""
        return vars(self) | {
            "broken": len(self.broken),
            "lost": len(self.lost),
            "shown": (self.broken + self.lost)[:_SHOWN_MAX],
            "first_token_ms": _percentiles(self.first_token_ms),
            "latencies_ms": {name: _percentiles(ms) for name, ms in self.latencies_ms.items()},
        }


def _percentiles(values: list[float]) -> dict[str, float]:
    wanted = {"p50": 50, "p99": 99, "max": 100} if values else {}
    return {name: percentile(values, percent) for name, percent in wanted.items()}


class Callers:
    """Carries a plan out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._address = Target(plan.url, plan.key, "").address
        self._idle: list[Any] = []
        self._random = Random(7)
        self._opened = Semaphore(0)
        self.crowd = Crowd()

    def run(self) -> Crowd:
        plan = self._plan
        jobs = [spawn(self._stream, plan.open_s * n / plan.streams) for n in range(plan.streams)]
        if plan.asks_per_s:
            jobs.append(spawn(self._keep_asking))
        for _ in jobs:
            self._opened.acquire()
        sys.stdout.write("open\n")
        sys.stdout.flush()
        joinall(jobs, raise_error=True)
        return self.crowd

    def _request(self, *, stream: bool, errand: Errand) -> bytes:
        message = {"role": "user", "content": errand.text()}
        body = {"model": self._plan.model, "stream": stream, "messages": [message]}
        return request_bytes(Target(self._plan.url, self._plan.key, json.dumps(body)))

    def _stream(self, after_s: float) -> None:
        sleep(after_s)
        plan, reader, asked_at = self._plan, Reader(), time.monotonic()
        request = self._request(stream=True, errand=Errand(plan.tokens, plan.tokens_per_s))
        try:
            with self._new() as connection:
                connection.sendall(request)
                while not reader.ended and (piece := connection.recv(READ_BYTES)):
                    reader.feed(piece)
                    if reader.tokens and not reader.noted:
                        reader.noted = True
                        self.crowd.first_token_ms.append((time.monotonic() - asked_at) * 1e3)
                        self._opened.release()
        except OSError as error:
            reader.problem = reader.problem or repr(error)
        if not reader.noted:
            self._opened.release()
        if reader.is_whole(plan.tokens):
            self.crowd.whole += 1
        elif reader.was_told and not reader.problem:
            self.crowd.told += 1
        else:
            self.crowd.broken.append(reader.reason())

    def _keep_asking(self) -> None:
        plan, pool, began_at = self._plan, Pool(self._plan.asks_max), time.monotonic()
        total = int(plan.asks_per_s * plan.asks_s)
        for number in range(total):
            due_at = began_at + number / plan.asks_per_s
            if (wait_s := due_at - time.monotonic()) > 0:
                sleep(wait_s)
            pool.spawn(self._ask, due_at)
            if number == min(_BEGUN, total - 1):
                self._opened.release()
        pool.join()
        self.crowd.asks_took_s = time.monotonic() - began_at

    def _ask(self, due_at: float) -> None:
        broken = self._random.random() < self._plan.fault_share
        fault = self._random.choice(_FAULTS) if broken else ""
        errand = Errand(1, 0.0, self._plan.upstream_s, fault)
        request = self._request(stream=False, errand=errand)
        try:
            status = self._send_until_answered(request)
        except OSError as error:
            if not fault:
                self.crowd.lost.append(f"{error!r}")
            return
        name = f"{status} after {fault}" if fault else str(status)
        self.crowd.asked[name] += 1
        self.crowd.latencies_ms.setdefault(name, []).append((time.monotonic() - due_at) * 1e3)

    def _new(self) -> Any:
        return create_connection(self._address, timeout=_ANSWER_S)

    def _take_idle(self) -> Any:
        """The connection used last, as pools do; one that has ended meanwhile is left out."""
        while self._idle:
            connection = self._idle.pop()
            if not select([connection], [], [], 0)[0]:
                return connection
            connection.close()
        return None

    def _send_until_answered(self, request: bytes) -> int:
        """What HTTP clients do: an ended connection that gave no byte is tried again on a new."""
        if kept := self._take_idle():
            try:
                return self._exchange(kept, request)
            except ConnectionError as error:
                if error.args[0] == "the answer broke off":
                    raise
                self.crowd.stale += 1
        return self._exchange(self._new(), request)

    def _exchange(self, connection: Any, request: bytes) -> int:
        keep = False
        try:
            connection.sendall(request)
            received = read_answer(connection)
            keep = b"connection: close" not in received[: received.index(b"\r\n\r\n")].lower()
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()
        return int(received[9:12])


class Reader:
    """One stream, read event by event: which tokens came, in which order, and how it ended."""

    def __init__(self) -> None:
        self.tokens, self.problem = 0, ""
        self.noted = self.ended = self.was_told = self.is_done = False
        self.usage: Any = None
        self._data = self._tail = self._status = b""

    def feed(self, piece: bytes) -> None:
        """Chunk marks stand on lines of their own and are no events."""
        data = self._data + piece
        if not self._status:
            self._status = data[9:12]
        self._tail = (self._tail + piece)[-len(_LAST_CHUNK) :]
        self.ended = self._tail == _LAST_CHUNK
        *lines, self._data = data.split(b"\n")
        for line in lines:
            if line == b"data: [DONE]":
                self.is_done = True
            elif line.startswith(b"data: "):
                self._event(line[6:])

    def _event(self, data: bytes) -> None:
        chunk = json.loads(data)
        self.was_told = self.was_told or "error" in chunk
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            for token in (choice["delta"].get("content") or "").split():
                if int(token) != self.tokens:
                    self.problem = self.problem or f"{token} in the place of {self.tokens}"
                self.tokens += 1

    def is_whole(self, tokens: int) -> bool:
        counted = self.usage and self.usage["completion_tokens"] == self.tokens == tokens
        return bool(counted and self.is_done and self.ended and not self.problem)

    def reason(self) -> str:
        return self.problem or f"status {self._status!r}, {self.tokens} tokens: {self.is_done}"


if __name__ == "__main__":
    crowd = Callers(Plan(**json.loads(sys.argv[1]))).run()
    sys.stdout.write(json.dumps(crowd.told_in_figures()) + "\n")
