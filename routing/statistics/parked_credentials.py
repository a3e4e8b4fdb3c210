"""Which of the gateway's own credentials are parked: refused or throttled by their provider.

Moments are monotonic seconds. Processes tell each other (`routing.statistics.peer_sync`); without a
hint store each one goes by what it has met itself.
"""

from functools import cache
from typing import Final, Literal, NamedTuple

from routing.entities.credentials import HouseCredential

ParkingKind = Literal["refused", "throttled"]
_PARKED_MAX: Final = 10_000


class CredentialEvent(NamedTuple):
    """That a credential was parked; `key` is its `HouseCredential.parking_key`."""

    kind: ParkingKind
    key: int
    until: float


class ParkedCredentials:
    """Credentials by the moment until which they are not used. One that is refused is so at every
    endpoint, one that is throttled at the endpoint that said so: limits are often a model's."""

    def __init__(self) -> None:
        self._until: dict[ParkingKind, dict[int, float]] = {"refused": {}, "throttled": {}}
        self._unpublished: dict[tuple[ParkingKind, int], CredentialEvent] = {}

    def park(
        self, credential: HouseCredential, endpoint: int, until: float, *, is_refused: bool
    ) -> None:
        """Note what its provider said, here and for the other processes."""
        kind: ParkingKind = "refused" if is_refused else "throttled"
        key = credential.parking_key(0 if is_refused else endpoint)
        event = CredentialEvent(kind, key, until)
        self._unpublished[kind, key] = event
        self.apply(event)

    def apply(self, event: CredentialEvent) -> None:
        """Park a credential here, as this process or another one was told to."""
        until = self._until[event.kind]
        # Put last: the oldest are forgotten first.
        latest = max(event.until, until.pop(event.key, 0.0))
        until[event.key] = latest
        while len(until) > _PARKED_MAX:
            del until[next(iter(until))]

    def clear(self, credential: HouseCredential, endpoint: int) -> None:
        """It was answered: what was wrong with it is over."""
        self._until["refused"].pop(credential.parking_key(), None)
        self._until["throttled"].pop(credential.parking_key(endpoint), None)

    def find_end(
        self, credential: HouseCredential, endpoint: int, now: float, *, even_throttled: bool
    ) -> float | None:
        """Until when it is parked at this endpoint; None where it may be used. With
        `even_throttled` one may be that is only throttled."""
        if not any(self._until.values()):
            return None
        ends = [self._until["refused"].get(credential.parking_key(), 0.0)]
        if not even_throttled:
            ends.append(self._until["throttled"].get(credential.parking_key(endpoint), 0.0))
        end = max(ends)
        return end if end > now else None

    def take(self) -> list[CredentialEvent]:
        """Take what the other processes have not been told yet."""
        events, self._unpublished = list(self._unpublished.values()), {}
        return events


@cache
def parked_credentials() -> ParkedCredentials:
    """This process's own."""
    return ParkedCredentials()
