"""What issuers publish of themselves, and the keys they sign with, as this process knows them.

Keys and the discovery document older than `_FRESH_S` are asked for again, by one request; others go
on with the former ones. A token that names an unknown key has them asked for at once. That happens
at most `_ASKS_MAX` times in `_ASK_AGAIN_S`, or once where the issuer does not answer. Then the
former keys stay good for `_KEPT_S`. Without any, the same refusal stands until it is asked again.
So nobody without a credential makes others wait for it one after the other.
"""

import json
import time
from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

import jwt
from jwt import PyJWK

from gateway.database.db import release_connection
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from gateway.outbound.doors import door_for
from gateway.outbound.errors import OutboundError
from gateway.outbound.http_client import Limits
from gateway.outbound.targets import TargetRefused, split_url, target_of

_FRESH_S: Final = 600.0
_ASK_AGAIN_S: Final = 15.0
# A new key may come right after the first look at an issuer.
_ASKS_MAX: Final = 2
_KEPT_S: Final = 24 * 3600.0
_TOTAL_S: Final = 5.0
_LIMITS: Final = Limits(3.0, _TOTAL_S, _TOTAL_S, 256 * 1024)
_DISCOVERY: Final = "/.well-known/openid-configuration"
# None whose key both sides share, and not the one that signs nothing.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
LEEWAY_S: Final = 30
# Of `typ`: of none in particular, and of access. Issuers sign also what says that somebody signed
# out, and requests.
TOKEN_TYPES: Final = frozenset({"jwt", "jose", "at+jwt"})


class IssuerSilent(Exception):
    """The issuer did not answer, or not with what was asked for. The text says what happened."""


class TokenRefused(Exception):
    """A token that proves nothing. The text says why, for logs and audit records."""


def fetch_json(
    url: str, *, method: str = "GET", body: bytes = b"", headers: tuple[tuple[str, str], ...] = ()
) -> JsonObject:
    """What stands at the URL. Raises `IssuerSilent`.

    Addresses that are not public are asked for providers of the settings and for
    `IDENTITY_PRIVATE_HOSTS` only.
    """
    try:
        target = target_of(*split_url(url))
        ours = {urlsplit(each.issuer).hostname or "" for each in settings.OIDC_PROVIDERS}
        private = frozenset(ours | set(settings.IDENTITY_PRIVATE_HOSTS))
        if not target.origin.is_tls and target.host not in private:
            raise TargetRefused("The URL begins with https://")
        release_connection()
        reply = door_for(target.host, private=private).send(
            target.origin,
            method=method,
            path=target.path,
            headers=[("Accept", "application/json"), *headers],
            body=body,
            limits=_LIMITS,
            deadline=time.monotonic() + _TOTAL_S,
        )
        with reply:
            status, text = reply.status, reply.read_all()
    except (OutboundError, TargetRefused) as error:
        raise IssuerSilent(str(error)) from error
    if status != 200:
        raise IssuerSilent(f"it answered {status}")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise IssuerSilent("it answered with something else than JSON") from error
    if not isinstance(found, dict):
        raise IssuerSilent("it answered with something else than an object")
    return found


class Issuer:
    """One issuer as this process knows it. `jwks_url` is found by discovery where it is empty."""

    def __init__(
        self,
        url: str,
        jwks_url: str = "",
        *,
        ask_again_s: float = _ASK_AGAIN_S,
        fresh_s: float = _FRESH_S,
    ) -> None:
        self.url, self._ask_again_s, self._fresh_s = url, ask_again_s, fresh_s
        self._jwks_url = jwks_url
        self._facts: JsonObject | None = None
        self._keys: Mapping[str, PyJWK] = {}
        self._facts_at = self._answered_at = float("-inf")
        self._asked_at: deque[float] = deque(maxlen=_ASKS_MAX)
        self._silence = ""
        self._lock = Lock()

    def read_facts(self) -> JsonObject:
        """Its discovery document; the former one where it is silent. Raises `IssuerSilent`."""
        now = time.monotonic()
        if self._facts is not None and now - self._facts_at < self._fresh_s:
            return self._facts
        # Callers that come meanwhile go on with the former document.
        self._facts_at = now - self._fresh_s + self._ask_again_s
        try:
            facts = fetch_json(self.url.rstrip("/") + _DISCOVERY)
            if facts.get("issuer") != self.url:
                raise IssuerSilent("its discovery document is of another issuer")
            self._facts, self._facts_at = facts, now
        except IssuerSilent:
            if self._facts is None:
                raise
        return self._facts

    def find_keys(self, key_id: str, *, newer: bool = False) -> list[PyJWK]:
        """The key of that name; for a token that names none all there are. With `newer` they are
        asked for again first. Raises `TokenRefused`, `IssuerSilent`."""
        now = time.monotonic()
        found = self.recall_keys(key_id)
        is_needed = newer or not found
        if is_needed or now - self._answered_at >= self._fresh_s:
            self._ask(now, waits=is_needed)
            found = self.recall_keys(key_id)
        if not found:
            raise TokenRefused("it is signed with a key that the issuer does not publish")
        return found

    def recall_keys(self, key_id: str) -> list[PyJWK]:
        """Those of `find_keys` that this process knows, without asking the issuer."""
        if not key_id:
            return list(self._keys.values())
        key = self._keys.get(key_id)
        return [key] if key is not None else []

    def _ask(self, now: float, *, waits: bool) -> None:
        """Read the keys, unless somebody just did, or does and nobody `waits`. Raises
        `IssuerSilent` where none are left."""
        if not self._lock.acquire(blocking=waits):
            return
        try:
            if self._waits_to_ask(now):
                if self._silence:
                    raise IssuerSilent(self._silence)
                return
            self._asked_at.append(now)
            self._silence = ""
            try:
                url = self._jwks_url or str(self.read_facts()["jwks_uri"])
                self._keys = _read_keys(fetch_json(url))
                self._answered_at = now
            except (IssuerSilent, KeyError) as error:
                if now - self._answered_at > _KEPT_S:
                    self._keys, self._silence = {}, str(error)
                    raise IssuerSilent(self._silence) from error
        finally:
            self._lock.release()

    def _waits_to_ask(self, now: float) -> bool:
        if not self._asked_at:
            return False
        if self._answered_at < self._asked_at[-1]:
            return now - self._asked_at[-1] < self._ask_again_s
        return len(self._asked_at) == _ASKS_MAX and now - self._asked_at[0] < self._ask_again_s


def _read_keys(answer: JsonObject) -> dict[str, PyJWK]:
    """Those that verify, by name; one without a name has the empty one."""
    keys = {}
    for row in answer.get("keys") or ():
        try:
            if row.get("use", "sig") == "sig":
                keys[str(row.get("kid", ""))] = PyJWK(row)
        except (jwt.PyJWTError, AttributeError):
            continue
    return keys


_issuers: dict[tuple[str, str], Issuer] = {}


def find_issuer(url: str, jwks_url: str = "") -> Issuer:
    """The process's own knowledge of an issuer."""
    return _issuers.setdefault((url, jwks_url), Issuer(url, jwks_url))


def forget_issuers() -> None:
    """Drop what this process knows."""
    _issuers.clear()


def verify(
    token: str, issuer: Issuer, *, audience: str | list[str], types: frozenset[str] = TOKEN_TYPES
) -> JsonObject:
    """The claims of a good token of one of these `types`. Raises `TokenRefused`, `IssuerSilent`."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise TokenRefused("its algorithm is not taken")
        if str(header.get("typ") or "jwt").lower().removeprefix("application/") not in types:
            raise TokenRefused("it is of another type")
        key_id = str(header.get("kid") or "")
        try:
            return _decode(token, issuer, issuer.find_keys(key_id), audience)
        except jwt.InvalidSignatureError:
            # An issuer may put another key in the place of one that has no name.
            return _decode(token, issuer, issuer.find_keys(key_id, newer=True), audience)
    except jwt.PyJWTError as error:
        raise TokenRefused(str(error)) from error


def is_signed(token: str, issuer: Issuer, *, audience: str) -> bool:
    """Whether it is good by the keys that are known of the issuer, which is not asked."""
    try:
        key_id = str(jwt.get_unverified_header(token).get("kid") or "")
        return bool(_decode(token, issuer, issuer.recall_keys(key_id), audience))
    except (jwt.PyJWTError, TokenRefused):
        return False


def _decode(token: str, issuer: Issuer, keys: list[PyJWK], audience: str | list[str]) -> JsonObject:
    """The claims, by whichever key it is signed with. Raises `PyJWTError`."""
    for last, key in enumerate(keys, 1 - len(keys)):
        try:
            claims: JsonObject = jwt.decode(
                token,
                key=key.key,
                algorithms=[key.algorithm_name],
                issuer=issuer.url,
                audience=audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
            if last == 0:
                raise
            continue
        return claims
    raise TokenRefused("the issuer publishes no key")
