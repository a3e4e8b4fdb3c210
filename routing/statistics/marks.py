"""Outages, parkings and recoveries of endpoints, as processes tell each other of them.

What happened here goes into this process's health at once (`routing.serving.attempts.attempts`);
what comes from elsewhere is put into it as if it had happened here, unless something newer is
known. All moments are of this process's monotonic clock.
"""

from typing import Final, Literal, NamedTuple

from routing.selection.health import EndpointHealth

Kind = Literal["outage", "parked", "well"]
_NEVER: Final = float("-inf")
# More endpoints than any catalogue has; what is older than any window can go then.
_KNOWN_MAX: Final = 20_000
_OLD_S: Final = 900.0


class Mark(NamedTuple):
    """What happened to an endpoint and when; `until` is when a parking ends."""

    kind: Kind
    endpoint: int
    at: float
    until: float = 0.0


class Marks:
    """What this process has to tell, and what it knows already.

    `probing` are the endpoints whose probe this process has taken on itself, `probed` those whose
    probe has ended since.
    """

    def __init__(self) -> None:
        self.probing: set[int] = set()
        self.probed: list[int] = []
        self._outage_at: dict[int, float] = {}
        self._well_at: dict[int, float] = {}
        self._to_tell: dict[tuple[Kind, int], Mark] = {}

    def outage(self, endpoint: int, at: float) -> None:
        self._outage_at[endpoint] = at
        self._tell(Mark("outage", endpoint, at))
        self.end_probe(endpoint)

    def parked(self, endpoint: int, at: float, *, until: float) -> None:
        self._tell(Mark("parked", endpoint, at, until))
        self.end_probe(endpoint)

    def well(self, endpoint: int, at: float) -> None:
        """It answered. Others are told where somebody knows of an outage."""
        self._well_at[endpoint] = at
        if endpoint in self._outage_at:
            del self._outage_at[endpoint]
            self._tell(Mark("well", endpoint, at))
        if self.probing:
            self.end_probe(endpoint)

    def end_probe(self, endpoint: int) -> None:
        """The probe is over, whatever came of it, if this process had one: others may send theirs,
        once they have been told what there is to tell."""
        if endpoint in self.probing:
            self.probing.discard(endpoint)
            self.probed.append(endpoint)

    def take(self) -> list[Mark]:
        """What there is to tell, in order; the latest of each kind and endpoint."""
        told, self._to_tell = sorted(self._to_tell.values(), key=_moment), {}
        if len(self._well_at) > _KNOWN_MAX:
            newest = max(self._well_at.values())
            self._well_at = {k: at for k, at in self._well_at.items() if newest - at < _OLD_S}
        return told

    def adopt(self, mark: Mark, health: EndpointHealth, *, now: float) -> None:
        """Let this process's health know of what another has met."""
        if mark.kind == "outage":
            self._adopt_outage(mark, health)
        elif mark.kind == "parked":
            if mark.until > now:
                health.park(mark.endpoint, now, hint_s=mark.until - now)
        elif mark.at > self._outage_at.get(mark.endpoint, _NEVER):
            self._outage_at.pop(mark.endpoint, None)
            health.record_success(mark.endpoint, mark.at)

    def _adopt_outage(self, mark: Mark, health: EndpointHealth) -> None:
        endpoint = mark.endpoint
        well_at = self._well_at.get(endpoint, _NEVER)
        if well_at > mark.at:
            # Whoever met the outage does not know yet that it has passed.
            self._tell(Mark("well", endpoint, well_at))
        elif mark.at > self._outage_at.get(endpoint, _NEVER):
            self._outage_at[endpoint] = mark.at
            health.record_failure(endpoint, mark.at)

    def _tell(self, mark: Mark) -> None:
        self._to_tell[mark.kind, mark.endpoint] = mark


def _moment(mark: Mark) -> float:
    return mark.at
