"""Work that must happen within one minute or day of UTC, as rate limits count them."""

import time
from collections.abc import Callable
from typing import TypeVar

from gateway.limits.limits import find_window_start

T = TypeVar("T")
_TRIES = 3


def within_one(window_s: int, work: Callable[[], T]) -> T:
    """What `work` returns, begun anew where a window ended in its midst. It must be able to be done
    again, on an account of its own each time."""
    for _ in range(_TRIES):
        began = find_window_start(time.time(), window_s)
        try:
            found = work()
        except AssertionError:
            if find_window_start(time.time(), window_s) == began:
                raise
            continue
        if find_window_start(time.time(), window_s) == began:
            return found
    raise AssertionError(f"it takes longer than the {window_s} s of a window")
