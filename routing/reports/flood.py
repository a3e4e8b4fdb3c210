"""How many failed requests of one key or address are put on record each second."""

import time
from collections.abc import Callable
from typing import Final

# Beyond these they are counts per minute, so that a flood neither fills the table nor slows others.
ROWS_PER_S: Final = 50
_SOURCES_MAX: Final = 10_000


class FloodGate:
    """Lets `most` through per source in each second. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float], *, most: int = ROWS_PER_S) -> None:
        self._now = now
        self._most = most
        self._second = 0
        self._counts: dict[str, int] = {}

    def admits(self, source: str) -> bool:
        """Whether one more of this source is put on record by itself."""
        second = int(self._now())
        if second != self._second or len(self._counts) >= _SOURCES_MAX:
            self._second, self._counts = second, {}
        count = self._counts[source] = self._counts.get(source, 0) + 1
        return count <= self._most


gate: Final = FloodGate(time.monotonic)
