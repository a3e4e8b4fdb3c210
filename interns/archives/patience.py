"""How long a store of archives is waited for."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeVar

Result = TypeVar("Result")
LOOK_S: Final = 1.0


class StoreTimedOut(TimeoutError):
    """Nothing is known of why."""


def run_with_limit(work: Callable[[], Result], limit_s: float, alive: Callable[[], None]) -> Result:
    """What `work` gives back, done in a thread of its own; `alive` is called now and then.

    Raises what `work` and `alive` raise, and `TookTooLong`. After that `work` may still go on, as
    nothing can end a thread that waits for a server: what it does late must do no harm.
    """
    until = time.monotonic() + limit_s
    future: Future[Result] = Future()
    threading.Thread(target=_carry_out, args=(future, work), daemon=True, name="archive").start()
    while True:
        left_s = until - time.monotonic()
        wait([future], timeout=max(0.0, min(left_s, LOOK_S)))
        if future.done():
            return future.result()
        if left_s <= 0:
            raise StoreTimedOut(f"the store took more than {limit_s:g} s")
        alive()


def _carry_out(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - It is raised where it is waited for.
        future.set_exception(error)
