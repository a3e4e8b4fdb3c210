"""Outages, parkings and recoveries of endpoints, as processes report them to each other.

An event of this process goes into its own health at once (`routing.serving.attempts.attempts`). An
event from elsewhere is applied as if it had happened here, unless something newer is known. All
moments are on this process's monotonic clock.
"""

from operator import attrgetter
from typing import Final, Literal, NamedTuple

from routing.selection.health import EndpointHealth

Kind = Literal["outage", "parked", "well"]
_NEVER: Final = float("-inf")
# More endpoints than any catalogue has; from here on, recoveries older than any window are dropped.
_KNOWN_MAX: Final = 20_000
_OLD_S: Final = 900.0


class HealthEvent(NamedTuple):
    """What happened to an endpoint and when; `until` is when a parking ends."""

    kind: Kind
    endpoint: int
    at: float
    until: float = 0.0


class HealthEvents:
    """The events this process has yet to publish, and the newest ones it knows of.

    `probing` are the endpoints that this process is probing, `probed` those whose probe has ended
    since the last exchange.
    """

    def __init__(self) -> None:
        self.probing: set[int] = set()
        self.probed: list[int] = []
        self._outage_at: dict[int, float] = {}
        self._well_at: dict[int, float] = {}
        self._unpublished: dict[tuple[Kind, int], HealthEvent] = {}

    def record_outage(self, endpoint: int, at: float) -> None:
        self._outage_at[endpoint] = at
        self._queue(HealthEvent("outage", endpoint, at))
        self.end_probe(endpoint)

    def record_parking(self, endpoint: int, at: float, *, until: float) -> None:
        self._queue(HealthEvent("parked", endpoint, at, until))
        self.end_probe(endpoint)

    def record_recovery(self, endpoint: int, at: float) -> None:
        """Note that the endpoint answered. It is published only where an outage is known."""
        self._well_at[endpoint] = at
        if endpoint in self._outage_at:
            del self._outage_at[endpoint]
            self._queue(HealthEvent("well", endpoint, at))
        if self.probing:
            self.end_probe(endpoint)

    def end_probe(self, endpoint: int) -> None:
        """End this process's probe, if it has one. Others may probe after the next exchange, when
        they know its outcome."""
        if endpoint in self.probing:
            self.probing.discard(endpoint)
            self.probed.append(endpoint)

    def take(self) -> list[HealthEvent]:
        """Take the unpublished events, in order; the latest of each kind and endpoint."""
        events = sorted(self._unpublished.values(), key=attrgetter("at"))
        self._unpublished = {}
        if len(self._well_at) > _KNOWN_MAX:
            newest = max(self._well_at.values())
            self._well_at = {k: at for k, at in self._well_at.items() if newest - at < _OLD_S}
        return events

    def apply(self, event: HealthEvent, health: EndpointHealth, *, now: float) -> None:
        """Put another process's event into this process's health."""
        endpoint = event.endpoint
        is_newer = event.at > self._outage_at.get(endpoint, _NEVER)
        well_at = self._well_at.get(endpoint, _NEVER)
        if event.kind == "parked":
            if event.until > now:
                health.park(endpoint, now, hint_s=event.until - now)
        elif event.kind == "well":
            if is_newer:
                self._outage_at.pop(endpoint, None)
                health.record_success(endpoint, event.at)
        elif well_at > event.at:
            # The process that met the outage does not know yet that it has passed.
            self._queue(HealthEvent("well", endpoint, well_at))
        elif is_newer:
            self._outage_at[endpoint] = event.at
            health.record_failure(endpoint, event.at)

    def _queue(self, event: HealthEvent) -> None:
        self._unpublished[event.kind, event.endpoint] = event
