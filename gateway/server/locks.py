"""Locks that lanes' threads share with gevent's loop.

A patched lock that two threads want may never wake the second. Nobody yields to another greenlet
while holding one of these, so they can be the system's own. They guard the Locals with a request's
zone, language and URLs in Django, and the handlers of `logging`. None of these is public, so the
stubs know none.
"""

import logging
from _thread import RLock
from typing import Any

from asgiref import local


def make_native() -> None:
    """For every Local and handler that is made from now on: before Django is imported."""
    make: Any = local._DefaultLocal.__init__

    def make_with_native_lock(self: object, thread_critical: bool = False) -> None:
        make(self, thread_critical)
        object.__setattr__(self, "_lock", RLock())

    local._DefaultLocal.__init__ = make_with_native_lock  # type: ignore[method-assign]
    logging._lock = RLock()  # type: ignore[attr-defined]
    logging.Handler.createLock = _create_native_lock  # type: ignore[method-assign]
    for handler in (reference() for reference in logging._handlerList):  # type: ignore[attr-defined]
        if handler is not None and handler.lock is not None:
            handler.createLock()


def _create_native_lock(self: logging.Handler) -> None:
    self.lock = RLock()  # type: ignore[assignment]  # `threading` names it a class of its own.
    logging._register_at_fork_reinit_lock(self)  # type: ignore[attr-defined]
