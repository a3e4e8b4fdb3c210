"""Short-lived tokens of this gateway's own, which stand for a key.

They are signed by Ed25519 with a key that all processes derive from the master key. Tokens that
were signed under a former master key count for as long as that is among the settings.
"""

import base64
import time
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accounts.identity.issuers import TokenRefused
from gateway.http.jsonio import JsonObject
from gateway.http.tags import NO_TAGS, Tags
from gateway.live_settings import settings

LIFETIME_MAX_S: Final = 900
AUDIENCE: Final = "routing-gateway"
_ALGORITHM: Final = "EdDSA"


class SigningKey(NamedTuple):
    key_id: str
    private: Ed25519PrivateKey
    public: Ed25519PublicKey


def find_issuer_name() -> str:
    """What own tokens say in `iss`."""
    return settings.PUBLIC_URL or "urn:routing-gateway"


class Origin(NamedTuple):
    """The issuer of the token that an own one was made of, and a digest of its workload."""

    issuer: str
    workload: str


class OwnToken(NamedTuple):
    """What a token of the gateway says. One that was made of a key has no `origin`."""

    key_hash: str
    expires_at: float
    tags: Tags
    origin: Origin | None


def issue(
    key_hash: str,
    *,
    lifetime_s: int = LIFETIME_MAX_S,
    tags: Tags = NO_TAGS,
    origin: Origin | None = None,
) -> str:
    """A token that stands for the key of this hash, for so long at most, and no longer than its
    origin counts. Its requests have these tags."""
    assert 0 < lifetime_s <= LIFETIME_MAX_S
    now, signing = int(time.time()), _derive(settings.VAULT_MASTER_KEY)
    claims: JsonObject = {
        "iss": find_issuer_name(),
        "aud": AUDIENCE,
        "sub": key_hash,
        "iat": now,
        "exp": now + lifetime_s,
    }
    if tags:
        claims["tags"] = dict(tags)
    if origin is not None:
        claims["origin"] = origin._asdict()
    return jwt.encode(
        claims, signing.private, algorithm=_ALGORITHM, headers={"kid": signing.key_id}
    )


def verify_own(token: str) -> OwnToken:
    """Raises `TokenRefused`."""
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
        signing = next((each for each in _list_keys() if each.key_id == key_id), None)
        if signing is None:
            raise TokenRefused("it is signed with a key of nobody here")
        claims: JsonObject = jwt.decode(
            token,
            signing.public,
            algorithms=[_ALGORITHM],
            issuer=find_issuer_name(),
            audience=AUDIENCE,
            options={"require": ["exp", "iat", "sub"]},
        )
    except jwt.PyJWTError as error:
        raise TokenRefused(str(error)) from error
    origin = Origin(**claims["origin"]) if "origin" in claims else None
    tags = claims.get("tags", NO_TAGS)
    return OwnToken(str(claims["sub"]), float(claims["exp"]), tags, origin)


def list_public_keys() -> list[JsonObject]:
    """The keys that verify own tokens, as JWK."""
    return [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "alg": _ALGORITHM,
            "use": "sig",
            "kid": each.key_id,
            "x": base64.urlsafe_b64encode(each.public.public_bytes(Encoding.Raw, PublicFormat.Raw))
            .rstrip(b"=")
            .decode(),
        }
        for each in _list_keys()
    ]


def _list_keys() -> list[SigningKey]:
    return [
        _derive(each) for each in (settings.VAULT_MASTER_KEY, *settings.VAULT_FORMER_MASTER_KEYS)
    ]


@lru_cache(maxsize=8)
def _derive(master_key: str) -> SigningKey:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"own-tokens")
    private = Ed25519PrivateKey.from_private_bytes(derived.derive(master_key.encode()))
    public = private.public_key()
    raw = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return SigningKey(sha256(raw).hexdigest()[:16], private, public)
