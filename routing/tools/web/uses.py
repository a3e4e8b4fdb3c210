"""How often a tool was used in one request; calls of one turn run side by side."""

import threading


class Uses:
    """At most `most` of something; None is any number."""

    def __init__(self, most: float | None) -> None:
        self._left = None if most is None else int(most)
        self._lock = threading.Lock()

    def take(self, wish: int = 1) -> int:
        """As many of the wished ones as are left, which then are used."""
        with self._lock:
            if self._left is None:
                return wish
            given = min(wish, self._left)
            self._left -= given
            return given

    def give_back(self, count: int) -> None:
        """What was taken and not needed."""
        with self._lock:
            if self._left is not None:
                self._left += count
