"""Waiting for a socket's next bytes on gevent's event loop, for less than its own socket does.

A chunk of a stream costs its gateway little but the waiting for it. gevent's socket reads in vain
first, which raises, and then makes a timeout object for every wait; here the watcher is kept, and
long waits share one clock that looks a few times a second (measured: 8 of 60 us a chunk).
"""

import time
from typing import Any

from gevent import get_hub, sleep, spawn
from gevent.hub import Waiter

# Waits at least so long may end this much late: a fiftieth.
_LONG_S = 2.5
_LOOK_S = 0.05
_READ = 1


class Readiness:
    """Whether one socket has bytes, or has ended. For one greenlet at a time; close it before the
    socket."""

    __slots__ = ("_hub", "_watcher")

    def __init__(self, descriptor: int) -> None:
        self._hub: Any = get_hub()
        self._watcher: Any = self._hub.loop.io(descriptor, _READ)

    def wait(self, wait_s: float) -> bool:
        """Wait for it; False when `wait_s` passed."""
        waiter: Any = Waiter(self._hub)
        watcher = self._watcher
        watcher.start(waiter.switch, True)
        try:
            return _long_wait(waiter, wait_s) if wait_s >= _LONG_S else self._wait(waiter, wait_s)
        finally:
            watcher.stop()

    def close(self) -> None:
        self._watcher.close()

    def _wait(self, waiter: Any, wait_s: float) -> bool:
        timer = self._hub.loop.timer(wait_s)
        timer.start(waiter.switch, False)
        try:
            return bool(waiter.get())
        finally:
            timer.close()


# Those who wait long, and until when on the monotonic clock.
_waiting: dict[Any, float] = {}
_looking = False


def _long_wait(waiter: Any, wait_s: float) -> bool:
    _waiting[waiter] = time.monotonic() + wait_s
    if not _looking:
        _begin_to_look()
    try:
        return bool(waiter.get())
    finally:
        del _waiting[waiter]


def _begin_to_look() -> None:
    global _looking
    _looking = True
    spawn(_look)


def _look() -> None:
    global _looking
    try:
        while _waiting:
            sleep(_LOOK_S)
            now = time.monotonic()
            for waiter, until in list(_waiting.items()):
                if until <= now:
                    # By way of the hub, as waiters want it.
                    get_hub().loop.run_callback(waiter.switch, False)
    finally:
        _looking = False
