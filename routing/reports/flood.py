"""How many failed requests of one key or address are put on record each second."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from django.conf import settings

from gateway.shared_cache import SharedCache, cache_key, shared_cache

if TYPE_CHECKING:
    import redis

# Beyond these they are counts per minute, so that a flood neither fills the table nor slows others.
ROWS_PER_S: Final = 50
_SOURCES_MAX: Final = 10_000
_STORE_S: Final = 0.5
_FORGET_S: Final = 30

# A source, and a second since 1970.
SourceSecond = tuple[str, int]


class FloodGate:
    """Lets `most()` through per source in each second. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float], most: Callable[[], int]) -> None:
        self._now = now
        self._most = most
        self._second = 0
        self._counts: dict[str, int] = {}

    def admits(self, source: str) -> bool:
        """Whether one more of this source gets a record of its own, as far as one process knows."""
        second = int(self._now())
        if second != self._second or len(self._counts) >= _SOURCES_MAX:
            self._second, self._counts = second, {}
        count = self._counts[source] = self._counts.get(source, 0) + 1
        return count <= self._most()


def _limit_process() -> int:
    """The whole limit if the shared cache sums up what processes write, else this one's part."""
    if shared_cache().available:
        return ROWS_PER_S
    return max(1, ROWS_PER_S // settings.WEB_CONCURRENCY)


gate: Final = FloodGate(time.monotonic, _limit_process)


def admit_records(
    wanted: Mapping[SourceSecond, int], cache: SharedCache | None = None
) -> Mapping[SourceSecond, int]:
    """How many of the records that this process wants to write of a source and second it may write,
    considering the other processes. All of them if the shared cache does not answer."""

    def add(store: "redis.Redis") -> list[int]:
        pipeline, prefix = store.pipeline(transaction=False), cache_key("failures")
        for (source, second), count in wanted.items():
            name = f"{prefix}:{source}:{second}"
            pipeline.incrby(name, count)
            pipeline.expire(name, _FORGET_S)
        sums: list[int] = pipeline.execute()[::2]
        return sums

    sums = (cache or shared_cache()).run(add, None, limit_s=_STORE_S)
    if sums is None:
        return wanted
    return {
        each: min(count, max(0, ROWS_PER_S - (whole - count)))
        for (each, count), whole in zip(wanted.items(), sums, strict=True)
    }
