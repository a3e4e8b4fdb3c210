"""Several pieces of work at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.database.db import under_gevent

T = TypeVar("T")


def side_by_side(work: Sequence[Callable[[], T]]) -> list[T]:
    """What each returns, in their order; what the first of them raises. Who is killed while waiting
    takes them along, and ends once they have: some have a bill to count."""
    if not under_gevent():
        with ThreadPoolExecutor(max_workers=len(work)) as pool:
            return list(pool.map(lambda each: each(), work))
    from gevent import killall, spawn

    jobs = [spawn(each) for each in work]
    try:
        return [job.get() for job in jobs]
    finally:
        killall(jobs)
