"""Room under a limit that one process holds for a moment, so that a busy key pays for a round trip
only now and then.

A process that asks the store may get room for more of the same. It counts as used at once, so all
processes together still never exceed a limit. It is given only where it is small beside what is
left of the limit. What was not needed of it goes back after `LEASE_S`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

# A process that needs more of a limit than it has left, while others hold this, is refused for this
# long.
LEASE_S: Final = 0.25
# At most this many requests' worth, each of them a small share of what is left, or none at all.
REQUESTS_MAX: Final = 256
REQUESTS_MIN: Final = 16
SHARE: Final = 256
# The store tells its time in whole ones of these.
_TICK_S: Final = 0.001


class LeasedLimit(Protocol):
    """A limit as it is taken from; see `gateway.limits.limits.Limit`."""

    @property
    def scope(self) -> str: ...
    @property
    def window_s(self) -> int: ...
    @property
    def cost(self) -> int: ...


@dataclass(slots=True)
class _Lease:
    """Room in the window that began at `start`, until that moment of this process's own clock."""

    start: int
    room: int
    until: float


class LimitLeases:
    """One process's own. `give_back` gets `(scope, window's start, amount)`, the amount less than
    zero. `later` runs a call after some seconds."""

    def __init__(
        self,
        give_back: Callable[[list[tuple[str, int, int]]], None],
        *,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._give_back = give_back
        self._later = later
        self.clock = clock
        self._leases: dict[str, _Lease] = {}
        self._will_sweep = False

    def take(self, limits: Sequence[LeasedLimit]) -> tuple[int, ...] | None:
        """Take from what is held of all the limits: when their windows began. None where something
        has to be asked for."""
        found = self._find_leases(limits)
        if found is None:
            return None
        starts = []
        for each, held in zip(limits, found, strict=True):
            held.room -= each.cost
            starts.append(held.start)
        return tuple(starts)

    def has_room(self, limits: Sequence[LeasedLimit]) -> bool:
        """Whether there is room held for all of them."""
        return self._find_leases(limits) is not None

    def _find_leases(self, limits: Sequence[LeasedLimit]) -> list[_Lease] | None:
        leases, now = self._leases, self.clock()
        found = []
        for each in limits:
            held = leases.get(each.scope)
            if held is None or held.room < each.cost or held.until <= now:
                return None
            found.append(held)
        return found

    def put(
        self,
        limits: Sequence[LeasedLimit],
        starts: Sequence[int],
        requests: int,
        *,
        at_s: float,
        asked_at: float,
    ) -> None:
        """Hold room for this many requests more. The store gave it at its Unix time `at_s`, to who
        asked at `asked_at` by `clock` or earlier.

        What is held is never used in the next window: its end is counted from when it was asked.
        """
        now, until = self.clock(), asked_at + LEASE_S
        unwanted = []
        for each, start in zip(limits, starts, strict=True):
            room = requests * each.cost
            held = self._leases.get(each.scope)
            if held is not None and held.start == start and held.until > now:
                held.room += room
                continue
            if held is not None:
                unwanted.append((each.scope, held.start, -held.room))
            end = asked_at + (start + each.window_s - at_s) - _TICK_S
            self._leases[each.scope] = _Lease(start, room, min(until, end))
        self._return(unwanted)
        self._sweep_later()

    def put_back(self, scope: str, start: int, amount: int) -> bool:
        """Keep what a request did not need, where there is room held of the same window."""
        held = self._leases.get(scope)
        if held is None or held.start != start or held.until <= self.clock():
            return False
        held.room += amount
        return True

    def sweep(self) -> None:
        """Give back what has been held for long enough."""
        self._will_sweep = False
        now = self.clock()
        self._end([scope for scope, held in self._leases.items() if held.until <= now])
        self._sweep_later()

    def close(self) -> None:
        """Give back everything."""
        self._end(list(self._leases))

    def _end(self, scopes: list[str]) -> None:
        gone = [(scope, self._leases.pop(scope)) for scope in scopes]
        self._return([(scope, held.start, -held.room) for scope, held in gone])

    def _return(self, parts: list[tuple[str, int, int]]) -> None:
        if some := [part for part in parts if part[2]]:
            self._give_back(some)

    def _sweep_later(self) -> None:
        if self._leases and not self._will_sweep:
            self._will_sweep = True
            self._later(LEASE_S, self.sweep)
