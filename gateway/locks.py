"""Locks of asgiref's under gevent.

Django keeps the zone, language and URLs of a request in asgiref's Locals. Lanes' threads
(`gateway.db`) share these with the loop, and a patched lock that two threads want may never wake
the second. So Locals get the system's own lock: who holds it never yields to another greenlet.
"""

from _thread import RLock
from typing import Any

from asgiref import local


def make_native() -> None:
    """For every Local that is made from now on: before Django is imported."""
    make: Any = local._DefaultLocal.__init__

    def make_with_native_lock(self: Any, thread_critical: bool = False) -> None:
        make(self, thread_critical)
        object.__setattr__(self, "_lock", RLock())

    local._DefaultLocal.__init__ = make_with_native_lock  # type: ignore[method-assign]
