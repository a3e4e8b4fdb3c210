"""Which of the gateway's own credentials are parked: refused or throttled by their provider.

Moments are monotonic seconds. Processes share them (`routing.statistics.peer_sync`); without a hint
store each process knows only its own.
"""

from functools import cache
from typing import Final, Literal, NamedTuple
from uuid import UUID

from routing.entities.entries import HouseCredential

ParkingKind = Literal["refused", "throttled"]
_PARKED_MAX: Final = 10_000
_PROBED_EVERY_S: Final = 5.0
# Between two exchanges of processes; the latest of each credential count.
_DOUBTS_SHARED_MAX: Final = 200
# Refusals of two accounts this far apart, or this soon after an answer, are each a request's own.
_DOUBTS_APART_S: Final = 60.0
_ANSWERED_LATELY_S: Final = 30.0
# Two accounts may be one person's: what they can bring about is soon over.
DOUBTED_MAX_S: Final = 60.0


class CredentialEvent(NamedTuple):
    """That a credential was parked; `key` is its `HouseCredential.parking_key`."""

    kind: ParkingKind
    key: int
    until: float


class Doubt(NamedTuple):
    """That a request of this account was refused or throttled with a credential, and until when
    the account's requests are sent with others."""

    kind: ParkingKind
    account_id: UUID
    noted: float
    until: float


class ParkedCredentials:
    """Credentials by the moment until which they are not used, at one endpoint or at all."""

    def __init__(self) -> None:
        self._until: dict[ParkingKind, dict[int, float]] = {"refused": {}, "throttled": {}}
        self._probed: dict[int, float] = {}
        self._answered: dict[int, float] = {}
        self._doubts: dict[ParkingKind, dict[int, Doubt]] = {"refused": {}, "throttled": {}}
        self._unpublished: dict[tuple[ParkingKind, int], CredentialEvent] = {}
        self._unpublished_doubts: dict[tuple[ParkingKind, int], Doubt] = {}

    def park(
        self, credential: HouseCredential, endpoint: int, until: float, *, kind: ParkingKind
    ) -> None:
        """Park a credential here and in the other processes; endpoint 0 means all endpoints."""
        key = credential.parking_key(endpoint)
        event = CredentialEvent(kind, key, until)
        self._unpublished[kind, key] = event
        self.apply(event)

    def apply(self, event: CredentialEvent) -> None:
        """Park a credential in this process."""
        until = self._until[event.kind]
        # Put last: the oldest are forgotten first.
        latest = max(event.until, until.pop(event.key, 0.0))
        until[event.key] = latest
        while len(until) > _PARKED_MAX:
            del until[next(iter(until))]

    def doubt(self, credential: HouseCredential, endpoint: int, doubt: Doubt) -> bool:
        """Note a failure that may be the request's own fault, here and in the other processes: an
        account can cause any number. True if another account met one just before, and the endpoint
        has not answered since."""
        here = credential.parking_key(endpoint)
        self._unpublished_doubts.pop((doubt.kind, here), None)
        self._unpublished_doubts[doubt.kind, here] = doubt
        while len(self._unpublished_doubts) > _DOUBTS_SHARED_MAX:
            del self._unpublished_doubts[next(iter(self._unpublished_doubts))]
        return self._is_met_by_two(here, doubt)

    def apply_doubt(self, key: int, doubt: Doubt) -> None:
        """Note what another process met. What two accounts met parks the credential here too."""
        if self._answered.get(key, float("-inf")) > doubt.noted:
            return
        doubts = self._doubts[doubt.kind]
        own = doubts.get(key)
        if own is not None and own.noted > doubt.noted:
            # It was met before what is known here.
            doubts[key], doubt = doubt, own
        if self._is_met_by_two(key, doubt):
            until = min(doubt.until, doubt.noted + DOUBTED_MAX_S)
            self.apply(CredentialEvent(doubt.kind, key, until))

    def _is_met_by_two(self, here: int, doubt: Doubt) -> bool:
        now, doubts = doubt.noted, self._doubts[doubt.kind]
        before = doubts.pop(here, None)
        is_met_by_two = (
            before is not None
            and before.account_id != doubt.account_id
            and now < min(before.until, before.noted + _DOUBTS_APART_S)
        )
        # Two accounts may be one person's. A throttled credential was often good a moment ago.
        answered = self._answered.get(here, float("-inf"))
        if is_met_by_two and (doubt.kind == "throttled" or now - answered >= _ANSWERED_LATELY_S):
            return True
        doubts[here] = doubt
        while len(doubts) > _PARKED_MAX:
            del doubts[next(iter(doubts))]
        return False

    def find_doubt_end(
        self,
        credential: HouseCredential,
        endpoint: int,
        account_id: UUID,
        now: float,
        *,
        even_throttled: bool,
    ) -> float | None:
        """Until when this account's requests are sent with others; None where they need not be.
        With `even_throttled` they may be sent with one that was only throttled."""
        here, end = credential.parking_key(endpoint), now
        for kind, doubts in self._doubts.items():
            doubt = doubts.get(here) if doubts else None
            if doubt is None or doubt.account_id != account_id:
                continue
            if not (even_throttled and kind == "throttled"):
                end = max(end, doubt.until)
        return end if end > now else None

    def clear(self, credential: HouseCredential, endpoint: int, now: float) -> None:
        """Use the credential again, because the endpoint answered it."""
        here = credential.parking_key(endpoint)
        self._until["refused"].pop(credential.parking_key(), None)
        for until in self._until.values():
            until.pop(here, None)
        for kind, doubts in self._doubts.items():
            doubts.pop(here, None)
            self._unpublished_doubts.pop((kind, here), None)
        # Put last: the oldest are forgotten first.
        self._answered.pop(here, None)
        self._answered[here] = now
        while len(self._answered) > _PARKED_MAX:
            del self._answered[next(iter(self._answered))]

    def find_end(
        self, credential: HouseCredential, endpoint: int, now: float, *, even_throttled: bool
    ) -> float | None:
        """Until when it is parked at this endpoint; None if it may be used. With `even_throttled`
        a credential that is only throttled may be used."""
        if not any(self._until.values()):
            return None
        here = credential.parking_key(endpoint)
        refused = self._until["refused"]
        end = max(refused.get(credential.parking_key(), 0.0), refused.get(here, 0.0))
        if not even_throttled:
            end = max(end, self._until["throttled"].get(here, 0.0))
        return end if end > now else None

    def may_probe(self, credential: HouseCredential, endpoint: int, now: float) -> bool:
        """Whether a refused credential may be tried when no other is left. Each process may once
        in a while, because the account may be in order again."""
        here = credential.parking_key(endpoint)
        if now - self._probed.get(here, float("-inf")) < _PROBED_EVERY_S:
            return False
        self._probed.pop(here, None)
        self._probed[here] = now
        while len(self._probed) > _PARKED_MAX:
            del self._probed[next(iter(self._probed))]
        return True

    def take(self) -> list[CredentialEvent]:
        """Take the unpublished events."""
        events, self._unpublished = list(self._unpublished.values()), {}
        return events

    def take_doubts(self) -> list[tuple[int, Doubt]]:
        """Take the unpublished doubts, each with the key of its credential and endpoint."""
        doubts, self._unpublished_doubts = self._unpublished_doubts, {}
        return [(key, doubt) for (_, key), doubt in doubts.items()]


@cache
def parked_credentials() -> ParkedCredentials:
    """This process's own."""
    return ParkedCredentials()
