"""Requests under way whose answer others may share: those of this process, each under the same key
and with the same bodies."""

import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from routing.response_cache.entry import Entry

Bodies = Sequence[Mapping[str, Any]]


class Flight:
    """One request under way. `entry` is its answer, None where it had none that others may have."""

    def __init__(self, index: Hashable, bodies: Bodies) -> None:
        self.index = index
        self.bodies = bodies
        self.entry: Entry | None = None
        self.has_landed = threading.Event()


class Flights:
    """All of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, list[Flight]] = {}

    def join(self, index: Hashable, bodies: Bodies) -> tuple[Flight, bool]:
        """The flight of such a request, and whether it is a new one that the caller must land.

        Only requests of one `index` are compared, which is far cheaper than to hash each body.
        """
        with self._lock:
            flights = self._under_way.setdefault(index, [])
            for flight in flights:
                if flight.bodies == bodies:
                    return flight, False
            flights.append(Flight(index, bodies))
            return flights[-1], True

    def land(self, flight: Flight) -> None:
        """Tell those who wait that the request has ended. May be said again."""
        with self._lock:
            flights = self._under_way.get(flight.index, [])
            if flight in flights:
                flights.remove(flight)
                if not flights:
                    del self._under_way[flight.index]
        flight.has_landed.set()


flights = Flights()
