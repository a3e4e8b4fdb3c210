"""Letting others run, for work on the event loop that never waits by itself."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from gevent import get_hub, monkey

_T = TypeVar("_T")
# Above every other watcher's: the turn comes back in the next round of the loop, idle or not.
_FIRST = 2


def yield_control(*, rounds: int = 1) -> None:
    """Let every greenlet run whose socket is ready; in an ordinary process, any other thread.

    A sleep of 0 would not do: the event loop takes dozens of those before it looks at a socket.
    """
    if _under_gevent():
        from gevent import idle

        for _ in range(rounds):
            idle(_FIRST)
    else:
        time.sleep(0)


def run_in_thread(work: Callable[[], _T], *, threads: Callable[[], Any] | None = None) -> _T:
    """Pure computing in a native thread where there is an event loop to keep turning. `threads`
    gives a pool of its own to work that may take long: names are looked up in the usual one."""
    if not _under_gevent():
        return work()
    pool = threads() if threads else get_hub().threadpool

    def capture_error() -> tuple[_T | None, Exception | None]:
        # gevent prints what a pool's thread raises, so errors come back as values.
        try:
            return work(), None
        except Exception as error:  # noqa: BLE001 - It is raised again in the greenlet that waits.
            return None, error

    result, error = pool.apply(capture_error)
    if error is not None:
        raise error
    return cast(_T, result)


def run_later(seconds: float, work: Callable[[], None]) -> None:
    """Run `work` after this many seconds. Without an event loop only what is due at once is run."""
    if _under_gevent():
        from gevent import spawn_later

        spawn_later(seconds, work)
    elif not seconds:
        work()


def find_loop() -> int:
    """Which one this thread has, for what only its own thread may use; 0 where nothing but the
    thread waits."""
    return id(get_hub()) if _under_gevent() else 0


@cache
def _under_gevent() -> bool:
    return bool(monkey.is_module_patched("socket"))
