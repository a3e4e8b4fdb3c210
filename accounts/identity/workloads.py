"""From a token of a program to the key that it stands for.

A token that was good is known by its hash until it expires, at most for a minute: then its
signature is looked at again. That its issuer, its workload or its key counts no more is known
within a second, as of any key.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import jwt

from accounts.identity import own_tokens
from accounts.identity.issuers import IssuerSilent, TokenRefused, find_issuer, is_signed, verify
from accounts.identity.own_tokens import Origin
from accounts.models import Workload
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject, dumps
from gateway.http.tags import NO_TAGS, Tags, select_tags
from gateway.live_settings import settings
from gateway.ttl_cache import TtlCache

_KNOWN_S: Final = 60.0
_KNOWN_MAX: Final = 10_000
TOKEN_CHARS_MAX: Final = 8_192
# A tag's value that is a claim's.
_CLAIM: Final = re.compile(r"\{([^{}]+)\}")


class TrustedWorkload(NamedTuple):
    """A workload as it stood when it was read."""

    jwks_url: str
    audience: str
    conditions: Mapping[str, str]
    key_hash: str
    account_id: UUID
    tags: Mapping[str, str] = NO_TAGS

    def digest(self) -> str:
        """Another one as soon as other tokens stand for the key."""
        facts = (self.jwks_url, self.audience, sorted(self.conditions.items()), self.key_hash)
        return sha256(dumps(facts)).hexdigest()


class KnownToken(NamedTuple):
    """`issuer` and `workload` are None for a token that was made of a key. `tags` are those of its
    requests."""

    key_hash: str
    expires_at: float
    until: float
    tags: Tags = NO_TAGS
    issuer: str | None = None
    workload: TrustedWorkload | None = None

    def still_counts(self, now: float) -> bool:
        if now >= self.until:
            return False
        return self.issuer is None or self.workload in (_trusted.find(self.issuer) or ())

    @property
    def origin(self) -> Origin | None:
        """What a token that is made of this one depends on."""
        if self.issuer is None or self.workload is None:
            return None
        return Origin(self.issuer, self.workload.digest())


class WorkloadCache(TtlCache[str, list[TrustedWorkload]]):
    """`find(issuer)` gives the workloads of that issuer, in their order, or None."""


_trusted = WorkloadCache(
    lambda issuer: run_queries(Lane.READ, lambda: _load(issuer)),
    age_max_s=settings.API_KEY_CACHE_SECONDS,
)
_known: OrderedDict[bytes, KnownToken] = OrderedDict()
_lock = threading.Lock()


def is_verified(token: str) -> bool:
    """Whether the token was good the last time somebody looked."""
    return _digest(token) in _known


def recall_tags(token: str) -> Tags:
    """What the token gives its requests, as it was when somebody last looked."""
    known = _known.get(_digest(token))
    return NO_TAGS if known is None else known.tags


def examine(token: str) -> KnownToken:
    """Which key the token stands for. Raises `TokenRefused`, `IssuerSilent`."""
    digest, now = _digest(token), time.time()
    known = _known.get(digest)
    if known is not None and known.still_counts(now):
        return known
    known = _examine(token, now)
    with _lock:
        _known[digest] = known
        _known.move_to_end(digest)
        while len(_known) > _KNOWN_MAX:
            _known.popitem(last=False)
    return known


def proves_itself(token: str) -> bool:
    """Whether it is signed by an issuer that somebody trusted the last time, as far as this process
    knows. Neither the database nor the issuer is asked."""
    try:
        issuer = _read_issuer(token)
        if issuer == own_tokens.find_issuer_name():
            return bool(own_tokens.verify_own(token))
    except TokenRefused:
        return False
    places = {(each.jwks_url, each.audience) for each in _trusted.recall(issuer) or ()}
    return any(
        is_signed(token, find_issuer(issuer, jwks_url), audience=audience)
        for jwks_url, audience in places
    )


def find_claimed_account(token: str) -> UUID | None:
    """The one account that trusts its issuer, as far as this process knows; None of none or more.
    Nothing proves that the issuer has signed it."""
    try:
        trusted = _trusted.recall(_read_issuer(token)) or ()
    except TokenRefused:
        return None
    accounts = {each.account_id for each in trusted}
    return accounts.pop() if len(accounts) == 1 else None


def forget_tokens() -> None:
    """Drop what this process knows of tokens and workloads."""
    with _lock:
        _known.clear()
    _trusted.forget()


def _examine(token: str, now: float) -> KnownToken:
    issuer = _read_issuer(token)
    if issuer == own_tokens.find_issuer_name():
        return _examine_own(token, now)
    workloads = _trusted.find(issuer)
    if not workloads:
        raise TokenRefused("nobody here trusts its issuer")
    good: dict[tuple[str, str], JsonObject | TokenRefused | IssuerSilent] = {}
    for each in workloads:
        place = each.jwks_url, each.audience
        if place not in good:
            known = find_issuer(issuer, each.jwks_url)
            try:
                good[place] = verify(token, known, audience=each.audience)
            except (TokenRefused, IssuerSilent) as refusal:
                good[place] = refusal
        claims = good[place]
        if isinstance(claims, dict) and fits(each.conditions, claims):
            expires_at = float(claims["exp"])
            until = min(expires_at, now + _KNOWN_S)
            tags = read_claim_tags(each.tags, claims)
            return KnownToken(each.key_hash, expires_at, until, tags, issuer, each)
    for silence in good.values():
        # Of one account that has mistyped where the keys are, or of all: it might be good there.
        if isinstance(silence, IssuerSilent):
            raise silence
    refusals = [each for each in good.values() if isinstance(each, TokenRefused)]
    raise refusals[0] if len(refusals) == len(good) else TokenRefused("no workload has its claims")


def _examine_own(token: str, now: float) -> KnownToken:
    own = own_tokens.verify_own(token)
    until = min(own.expires_at, now + _KNOWN_S)
    known = KnownToken(own.key_hash, own.expires_at, until, own.tags)
    if own.origin is None:
        return known
    for workload in _trusted.find(own.origin.issuer) or ():
        if workload.digest() == own.origin.workload:
            return known._replace(issuer=own.origin.issuer, workload=workload)
    raise TokenRefused("the workload that it was made for counts no more")


def _read_issuer(token: str) -> str:
    """The issuer that the token names. Raises `TokenRefused`."""
    if len(token) > TOKEN_CHARS_MAX:
        raise TokenRefused("it is too long")
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except jwt.PyJWTError as error:
        raise TokenRefused(str(error)) from error
    if not isinstance(issuer, str) or not issuer.isprintable():
        # No text in the database has a NUL or half of a surrogate pair.
        raise TokenRefused("it names no issuer")
    return issuer


def fits(conditions: Mapping[str, str], claims: Mapping[str, Any]) -> bool:
    """Whether each condition fits a value of its claim. None at all fit nobody."""
    return bool(conditions) and all(
        any(
            isinstance(value, str | int) and fnmatchcase(str(value), pattern)
            for value in _list_values(claims, name)
        )
        for name, pattern in conditions.items()
    )


def read_claim_tags(wanted: Mapping[str, str], claims: Mapping[str, Any]) -> Tags:
    """The tags that a workload gives. A claim that is missing or has no plain value gives none."""
    found: JsonObject = {}
    for name, text in wanted.items():
        claim = _CLAIM.fullmatch(text)
        found[name] = _list_values(claims, claim[1])[0] if claim else text
    return select_tags(found)


def _list_values(claims: Mapping[str, Any], name: str) -> list[Any]:
    value: Any = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, list) and value else [value]


def _load(issuer: str) -> list[TrustedWorkload] | None:
    rows = Workload.objects.filter(issuer__url=issuer, issuer__enabled=True)
    found = [
        TrustedWorkload(
            row.issuer.jwks_url,
            row.issuer.audience,
            row.conditions,
            row.key.hash,
            row.key.account_id,
            row.tags or NO_TAGS,
        )
        for row in rows.select_related("issuer", "key").order_by("pk")
    ]
    return found or None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()
