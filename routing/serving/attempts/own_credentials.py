"""A team's own credentials at work: for which endpoints they are, and how each of them fares.

What a provider says of such a credential says nothing of the endpoint that others use. So the
credential rests at that endpoint, and is tried last meanwhile.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

from accounts.byok import ByokEntry, unseal_key
from gateway.live_settings import settings
from gateway.sealing import UnsealError
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.model_references import parse_reference
from routing.selection.types import Candidate, EndpointState
from routing.serving.request import process
from routing.serving.request.context import Attempt
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure

log = logging.getLogger("routing.byok")

_RESTS_MAX: Final = 10_000
_NO_ACCESS: Final = 404
_VISIBLE: Final = re.compile(r"[ -~]+")
_Key = tuple[str, str, int]


class RestingCredentials:
    """Until when which credential is tried last at which endpoint; moments are monotonic seconds.

    The oldest is forgotten where there are too many: it is tried in its turn again.
    """

    def __init__(self, *, size_max: int = _RESTS_MAX) -> None:
        self._size_max = size_max
        self._until: dict[_Key, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, entry: ByokEntry, endpoint: int, until: float) -> None:
        key = _key(entry, endpoint)
        self._until.pop(key, None)
        self._until[key] = until
        while len(self._until) > self._size_max:
            del self._until[next(iter(self._until))]

    def remove(self, entry: ByokEntry, endpoint: int) -> None:
        self._until.pop(_key(entry, endpoint), None)

    def is_resting(self, entry: ByokEntry, endpoint: int, now: float) -> bool:
        key = _key(entry, endpoint)
        until = self._until.get(key)
        if until is not None and now >= until:
            del self._until[key]
            return False
        return until is not None


def _key(entry: ByokEntry, endpoint: int) -> _Key:
    """A rotated key begins anew; the end of what is sealed is its authentication tag."""
    return entry.id, entry.sealed[-24:], endpoint


@cache
def resting_credentials() -> RestingCredentials:
    """This process's own."""
    return RestingCredentials()


# --- Which endpoints they are for -----------------------------------------------------------------


def add_own_credentials(
    state: EndpointState,
    entries: Sequence[ByokEntry],
    models: Sequence[ModelEntry],
    *,
    aliases: Mapping[str, str],
) -> EndpointState:
    """The state with the places of the credentials that match endpoints of these models.

    A place is the credential's number among `entries`, counted on from behind the last of them for
    one that rests: it comes after all others. Endpoints that a credential keeps the gateway's own
    one from are `unshared`, whether or not they have a place.
    """
    unshared: set[int] = set()
    first: dict[int, list[int]] = {}
    last: dict[int, list[int]] = {}
    now, resting = process.now(), resting_credentials()
    for endpoint in (each for model in models for each in model.by_price):
        for place, entry in enumerate(entries):
            if entry.is_byok_only and entry.provider == endpoint.provider.slug:
                unshared.add(endpoint.pk)
            if not matches(entry, endpoint, aliases):
                continue
            if entry.is_required:
                unshared.add(endpoint.pk)
            if resting and resting.is_resting(entry, endpoint.pk, now):
                last.setdefault(endpoint.pk, []).append(len(entries) + place)
            else:
                places = last if entry.is_fallback else first
                places.setdefault(endpoint.pk, []).append(place)
    return state._replace(
        byok=_sort_places(first), byok_fallback=_sort_places(last), unshared=frozenset(unshared)
    )


def matches(entry: ByokEntry, endpoint: EndpointEntry, aliases: Mapping[str, str]) -> bool:
    """Whether the credential is for this endpoint's provider and model.

    A model is meant by its id, its canonical slug, an alias or any of these with a suffix. The id
    without a variant (`acme/small` of `acme/small:free`) means its variants as well.
    """
    if entry.provider != endpoint.provider.slug:
        return False
    if entry.models is None:
        return True
    own = {endpoint.model_id, endpoint.canonical_slug}
    own |= {name.partition(":")[0] for name in own}
    return any(name in own or aliases.get(name) in own for name in _base_names(entry.models))


@lru_cache(maxsize=1024)
def _base_names(names: frozenset[str]) -> frozenset[str]:
    return frozenset(parse_reference(name).base for name in names)


def _sort_places(places: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
    return {key: tuple(sorted(numbers)) for key, numbers in places.items()}


def any_matches(
    entries: Sequence[ByokEntry], models: Sequence[ModelEntry], aliases: Mapping[str, str]
) -> bool:
    """Whether some endpoint of the models could be called on one of these."""
    return any(
        matches(entry, endpoint, aliases)
        for entry in entries
        for model in models
        for endpoint in model.endpoints
    )


# --- A call with one of them ----------------------------------------------------------------------


def find_entry(turn: Candidate, entries: Sequence[ByokEntry]) -> ByokEntry | None:
    """The credential that a try is made with; None for the gateway's own."""
    return None if turn.own is None else entries[turn.own % len(entries)]


def open_key(entry: ByokEntry) -> str | None:
    """The key itself, for one request; None where it cannot be sent."""
    try:
        key = unseal_key(entry)
    except UnsealError as error:
        log.warning("BYOK credential %s at %s: %s", entry.id, entry.provider, error)
        return None
    return key if _VISIBLE.fullmatch(key) else None


def find_secret(attempt: Attempt) -> str | None:
    """What must not be repeated of what the attempt's upstream said."""
    if attempt.house is not None:
        return attempt.house.secret
    if attempt.own is None:
        return attempt.endpoint.provider.credential
    return open_key(attempt.own)


def is_credential_failure(attempt: Attempt, failure: UpstreamFailure) -> bool:
    """Whether the failure is the team's credential's and says nothing of the endpoint. Providers
    say 404 of models that a key has no access to."""
    if attempt.own is None:
        return False
    return failure.credential or failure.parked or failure.status == _NO_ACCESS


def rest_credential(attempt: Attempt, failure: UpstreamFailure, now: float) -> None:
    """Try the team's credential last there for a while, and tell the caller that it is its own."""
    assert attempt.own is not None
    if failure.parked:
        hint_s = failure.retry_after_s
        rest_s = RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
    else:
        rest_s = settings.ROUTER_OUTAGE_WINDOW_SECONDS
    if failure.credential:
        failure.blame_own_credential()
    resting_credentials().add(attempt.own, attempt.endpoint.pk, now + rest_s)
