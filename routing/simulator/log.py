"""What the simulated upstream saw, for tests to look at."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from routing.simulator.connection import Lifeline, SimulatedRequest
from routing.simulator.encoding import JsonObject

ENTRIES_MAX = 10_000
BODY_BYTES_KEPT_MAX = 64 * 1024 * 1024


class LoggedRequest:
    """One request as it was seen. Times are seconds of the system-wide monotonic clock."""

    __slots__ = (
        "body_raw_bytes",
        "bytes_sent",
        "ended_at",
        "fault",
        "first_byte_at",
        "lifeline",
        "n",
        "outcome",
        "persona",
        "received_at",
        "request",
        "status",
    )

    def __init__(self, n: int, persona: str, request: SimulatedRequest, lifeline: Lifeline) -> None:
        self.n = n
        self.persona = persona
        self.request = request
        self.lifeline = lifeline
        self.received_at = monotonic()
        self.first_byte_at: float | None = None
        self.ended_at: float | None = None
        self.bytes_sent = 0
        self.status: int | None = None
        self.fault: str | None = None
        self.outcome = "pending"
        self.body_raw_bytes = len(request.body)

    def serialize(self) -> JsonObject:
        """The entry as JSON. `body` is null when it was no JSON, or was too much to keep."""
        request = self.request
        return {
            "n": self.n,
            "persona": self.persona,
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "headers": request.headers,
            "authorization_present": "authorization" in request.headers,
            "body": parse_body(request.body),
            "body_raw_bytes": self.body_raw_bytes,
            "received_at": self.received_at,
            "first_byte_at": self.first_byte_at,
            "ended_at": self.ended_at,
            "connection_closed_at": self.lifeline.closed_at,
            "closed_by": self.lifeline.closed_by,
            "bytes_sent": self.bytes_sent,
            "status": self.status,
            "fault": self.fault,
            "outcome": self.outcome,
        }


def parse_body(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        return None


class RequestLog:
    """The newest 10,000 requests, and a way to wait for one to reach a state."""

    def __init__(self) -> None:
        self._entries: deque[LoggedRequest] = deque()
        self._with_body: deque[LoggedRequest] = deque()
        self._body_bytes = 0
        self._last_n = 0
        self._waiting: set[asyncio.Event] = set()

    def add(self, persona: str, request: SimulatedRequest, lifeline: Lifeline) -> LoggedRequest:
        self._last_n += 1
        entry = LoggedRequest(self._last_n, persona, request, lifeline)
        self._entries.append(entry)
        self._with_body.append(entry)
        self._body_bytes += entry.body_raw_bytes
        if len(self._entries) > ENTRIES_MAX:
            oldest = self._entries.popleft()
            if self._with_body[0] is oldest:
                self._forget_oldest_body()
        while self._body_bytes > BODY_BYTES_KEPT_MAX and len(self._with_body) > 1:
            self._forget_oldest_body()
        self.wake_waiting()
        return entry

    def since(self, n: int) -> Iterator[LoggedRequest]:
        """Entries numbered above n, newest last."""
        return (entry for entry in self._entries if entry.n > n)

    def find(self, n: int) -> LoggedRequest | None:
        return next((entry for entry in reversed(self._entries) if entry.n == n), None)

    def clear(self) -> int:
        """Forget everything; numbering goes on. Returns the last number given."""
        self._entries.clear()
        self._with_body.clear()
        self._body_bytes = 0
        return self._last_n

    def wake_waiting(self) -> None:
        for event in self._waiting:
            event.set()

    async def wait(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `ready` holds. False means time ran out."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(timeout_s):
                while not ready():
                    event.clear()
                    await event.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(event)
        return True

    def _forget_oldest_body(self) -> None:
        entry = self._with_body.popleft()
        self._body_bytes -= entry.body_raw_bytes
        entry.request.body = b""
