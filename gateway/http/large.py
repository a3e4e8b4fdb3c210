"""Large bodies: a bound on what they take together, and one parsed at a time.

The parser itself cannot be interrupted, so how full a body may be bounds how long it takes; before,
between and after, other connections have their turns.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.http import HttpRequest
from gevent.lock import Semaphore

from gateway.database.db import under_gevent
from gateway.eventloop import yield_control
from gateway.http.errors import PayloadTooLarge, Unavailable
from gateway.http.jsonio import Between, Raw, do_nothing, is_fuller_than, loads
from gateway.live_settings import settings

# Fewer bytes are parsed in a few milliseconds.
ONE_AT_A_TIME_BYTES: Final = 262_144
# Commas, colons and opening brackets outside strings: 100,000 messages of five parts each, twice.
# The worst that keeps to it is parsed in 0.1 s, where 32 MiB of `[],` would take 3 s and 1 GB.
MARKS_MAX: Final = 1_000_000

_turn = Semaphore(1)


class BodyMemory:
    """The bytes of large bodies whose requests are in progress in this process."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def take(self, size: int) -> None:
        """Raises `Unavailable` (503, Retry-After) where it would become too much."""
        if self.taken_bytes + size > settings.ROUTER_BODY_MEMORY_BYTES:
            raise Unavailable("Too many large requests in progress")
        self.taken_bytes += size

    def give_back(self, size: int) -> None:
        self.taken_bytes -= size


memory = BodyMemory()


class BodyShare:
    """What one request's body takes of the memory, given back when its response is closed."""

    def __init__(self, request: HttpRequest) -> None:
        self._size = 0
        self._close = request.close
        # Django closes the request with its response, a stream's too.
        request.close = self._end  # type: ignore[method-assign]  # Only this request's.

    def grow(self, size: int) -> None:
        """Raises `Unavailable`."""
        memory.take(size)
        self._size += size

    def _end(self) -> None:
        size, self._size = self._size, 0
        memory.give_back(size)
        self._close()


def parse_large(raw: Raw) -> Any:
    """`jsonio.loads`; a large body that is too full raises `PayloadTooLarge` instead."""
    if len(raw) <= ONE_AT_A_TIME_BYTES:
        return loads(raw)
    if not under_gevent():
        return _parse_bounded(raw, do_nothing)
    with _turn:
        return _parse_bounded(raw, yield_control)


def _parse_bounded(raw: Raw, between: Between) -> Any:
    if is_fuller_than(MARKS_MAX, raw, between):
        raise PayloadTooLarge("Request payload too large: too many JSON values")
    with pause_collector():
        return loads(raw, between)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at the new values over and over while they come."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
