"""The gateway's own credentials for a provider that has several: which one an attempt is made with,
and what its failures mean for it.

What a provider says of one of them says nothing of the endpoint: the credential is parked, and
another one is tried.
"""

import hashlib
import math
from collections.abc import Set
from typing import Final, NamedTuple
from uuid import UUID

from gateway.limits.rules import LimitsTaken
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry, HouseCredential
from routing.serving.admission.endpoint_limits import Full, take_for_endpoint
from routing.serving.attempts.own_credentials import is_credential_failure, rest_credential
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.statistics.parked_credentials import (
    DOUBTED_MAX_S,
    Doubt,
    ParkingKind,
    parked_credentials,
)
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure

_DRAW_BYTES: Final = 8
_UNAUTHORIZED: Final = 401
# Said by 400 where the account behind a credential ran dry, and in no words that a caller chose.
_NO_CREDIT: Final = 400
_REFUSED_MAX_S: Final = 600.0


class AllParked(NamedTuple):
    """No credential of a pool may be used before this moment (monotonic seconds)."""

    until: float


class ChosenCredential(NamedTuple):
    """The credential to send, and what the attempt took of rate limits."""

    credential: HouseCredential
    limits: LimitsTaken | None


def take_credential(
    progress: RequestProgress,
    endpoint: EndpointEntry,
    tried: Set[int],
    *,
    even_throttled: bool,
    is_last_resort: bool = False,
    in_turn: bool = False,
) -> ChosenCredential | Full | AllParked:
    """The first credential of the provider's pool that was not `tried`, is not parked and has room.
    With `even_throttled` one may be tried that a 429 has parked. As a last resort one may be tried
    that was refused to this account, and now and then one that was refused to all. `in_turn` is as
    in `take_for_endpoint`."""
    now, parked = process.now(), parked_credentials()
    account_id = progress.context.payer.account_id
    ends: list[float] = []
    full: Full | None = None
    for credential in _order_by_draw(progress, endpoint):
        if credential.pk in tried:
            continue
        end = parked.find_end(credential, endpoint.pk, now, even_throttled=even_throttled)
        if end is not None and not (
            is_last_resort and parked.may_probe(credential, endpoint.pk, now)
        ):
            ends.append(end)
            continue
        doubt_end = parked.find_doubt_end(
            credential, endpoint.pk, account_id, now, even_throttled=even_throttled
        )
        if doubt_end is not None and not is_last_resort:
            ends.append(doubt_end)
            continue
        limits = take_for_endpoint(progress, endpoint, credential.rate_rules, in_turn=in_turn)
        if not isinstance(limits, Full):
            return ChosenCredential(credential, limits)
        if full is None or limits.wait_s < full.wait_s:
            full = limits
    return full or AllParked(min(ends, default=now))


def _order_by_draw(progress: RequestProgress, endpoint: EndpointEntry) -> list[HouseCredential]:
    """The pool in an order drawn by weight. A conversation keeps its draw, and a tool loop its
    credential: prompt caches of providers belong to the account behind it."""
    conversation = progress.context.conversation_key
    mark = None if conversation is None else conversation.digest
    last = progress.last_attempt if progress.loop is not None else None

    def rank(credential: HouseCredential) -> tuple[bool, float]:
        drawn = process.chance() if mark is None else _draw(mark, credential.pk)
        # The least of exponential waits: each is first as often as its weight's share says.
        wait = -math.log(1.0 - drawn) / credential.weight
        return last is None or last.house is not credential, wait

    return sorted(endpoint.provider.credentials, key=rank)


def _draw(mark: bytes, pk: int) -> float:
    """A number in [0, 1) that a conversation always gets for this credential."""
    digest = hashlib.blake2b(mark + pk.to_bytes(8, "big"), digest_size=_DRAW_BYTES).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def is_pool_failure(attempt: Attempt, failure: UpstreamFailure) -> bool:
    """Whether the failure is the pooled credential's, and another one may do better."""
    return attempt.house is not None and (failure.credential or failure.parked)


def note_credential_failure(
    attempt: Attempt, failure: UpstreamFailure, account_id: UUID, now: float
) -> bool:
    """Park the credential that the attempt was made with, the pool's or the team's own, where the
    failure is its own. False where it says something of the endpoint."""
    if is_credential_failure(attempt, failure):
        rest_credential(attempt, failure, now)
        return True
    house, endpoint, hint_s = attempt.house, attempt.endpoint.pk, failure.retry_after_s
    if house is None or not is_pool_failure(attempt, failure):
        return False
    parked = parked_credentials()
    kind: ParkingKind
    if failure.credential:
        default_s = settings.ROUTER_CREDENTIAL_PARK_SECONDS
        kind, pause_s = "refused", default_s if hint_s is None else min(hint_s, _REFUSED_MAX_S)
    else:
        # Some say so of a single request that is larger than a whole minute's tokens.
        kind, pause_s = "throttled", RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
    if is_unusable_credential(failure):
        parked.park(house, 0, now + pause_s, kind=kind)
    elif parked.doubt(house, endpoint, Doubt(kind, account_id, now, now + pause_s)):
        parked.park(house, endpoint, now + min(pause_s, DOUBTED_MAX_S), kind=kind)
    return True


def is_unusable_credential(failure: UpstreamFailure) -> bool:
    """Whether no request can be served with it. Any other refusal may be of this model, or of what
    this caller asks for. Some providers refuse content by 403, and too large a maximum by 402."""
    return failure.credential and failure.status in (_UNAUTHORIZED, _NO_CREDIT)
