"""Letting others run, for work on the event loop that never waits by itself."""

import time
from functools import cache

from gevent import monkey

# Above every other watcher's: the turn comes back in the next round of the loop, idle or not.
_FIRST = 2


def give_way(*, rounds: int = 1) -> None:
    """Let every greenlet run whose socket is ready; in an ordinary process, any other thread.

    A sleep of 0 would not do: the event loop takes dozens of those before it looks at a socket.
    """
    if _under_gevent():
        from gevent import idle

        for _ in range(rounds):
            idle(_FIRST)
    else:
        time.sleep(0)


@cache
def _under_gevent() -> bool:
    return bool(monkey.is_module_patched("socket"))
