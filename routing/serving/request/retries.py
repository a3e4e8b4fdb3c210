"""The retry budget of a process: attempts after the first are a share of first attempts."""

from collections import deque

WINDOW_S = 10.0


class RetryBudget:
    """In any 10 s, at most `share` of first attempts plus `floor` further ones. `now` is monotonic
    seconds."""

    def __init__(self, *, share: float, floor: int) -> None:
        self._share = share
        self._floor = floor
        self._firsts: deque[float] = deque()
        self._retries: deque[float] = deque()

    def first(self, now: float) -> None:
        _forget(self._firsts, now)
        self._firsts.append(now)

    def draw(self, now: float) -> bool:
        """Take one retry; False when the budget is spent."""
        _forget(self._firsts, now)
        _forget(self._retries, now)
        if len(self._retries) + 1 > self._share * len(self._firsts) + self._floor:
            return False
        self._retries.append(now)
        return True


def _forget(moments: deque[float], now: float) -> None:
    while moments and now - moments[0] > WINDOW_S:
        moments.popleft()
