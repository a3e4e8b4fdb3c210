"""Requests under way whose answer others may share: those of this process, by the name that the
response cache would keep their answer under."""

import threading

from routing.response_cache.entry import Entry


class Flight:
    """One request under way. Once it `has_landed`, `entry` is its answer; None where it failed, or
    `is_private`: nobody else may have it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry: Entry | None = None
        self.is_private = False
        self.has_landed = threading.Event()


class Flights:
    """All of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Flight] = {}

    def join(self, name: str) -> tuple[Flight, bool]:
        """The flight of that name, and whether it is a new one that the caller must land."""
        with self._lock:
            flight = self._under_way.get(name)
            if flight is not None:
                return flight, False
            flight = self._under_way[name] = Flight(name)
            return flight, True

    def land(self, flight: Flight) -> None:
        """Tell those who wait that the request has ended, or that they wait in vain. May be said
        again."""
        with self._lock:
            if self._under_way.get(flight.name) is flight:
                del self._under_way[flight.name]
        flight.has_landed.set()


flights = Flights()
