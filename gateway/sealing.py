"""Secrets at rest: AES-256-GCM under a key derived from VAULT_MASTER_KEY, bound to their row.

A sealed value copied into another row does not open there: the row's name is authenticated with it.
"""

import base64
import secrets
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_VERSION = "v1:"
_NONCE_BYTES = 12


class UnsealError(ValueError):
    """The value was sealed under another master key, for another row, or was changed."""


@lru_cache(maxsize=8)
def _cipher(master_key: str, purpose: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
    return AESGCM(derived.derive(master_key.encode()))


def seal(plaintext: str, *, purpose: str, row: str) -> str:
    """Encrypt `plaintext` for one row, e.g. purpose "provider-credential", row "acme"."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    cipher = _cipher(settings.VAULT_MASTER_KEY, purpose)
    sealed = cipher.encrypt(nonce, plaintext.encode(), row.encode())
    return _VERSION + base64.b64encode(nonce + sealed).decode()


def seal_bytes(plaintext: bytes, *, purpose: str, row: str) -> bytes:
    """`seal` for what is large: bytes in, bytes out."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    cipher = _cipher(settings.VAULT_MASTER_KEY, purpose)
    return _VERSION.encode() + nonce + cipher.encrypt(nonce, plaintext, row.encode())


def unseal_bytes(sealed: bytes, *, purpose: str, row: str) -> bytes:
    """The plaintext of `seal_bytes`. Raises `UnsealError`."""
    if not sealed.startswith(_VERSION.encode()):
        raise UnsealError("unknown form")
    raw = sealed[len(_VERSION) :]
    cipher = _cipher(settings.VAULT_MASTER_KEY, purpose)
    try:
        return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], row.encode())
    except (InvalidTag, ValueError) as error:
        raise UnsealError("does not open with this master key and row") from error


def unseal(sealed: str, *, purpose: str, row: str) -> str:
    """The plaintext of `seal`. Raises `UnsealError`."""
    if not sealed.startswith(_VERSION):
        raise UnsealError("unknown form")
    try:
        encoded = sealed.removeprefix(_VERSION)
        raw = base64.b64decode(encoded, validate=True)
        if base64.b64encode(raw).decode() != encoded:
            raise UnsealError("changed")  # The last letter may hold bits that decode to nothing.
        cipher = _cipher(settings.VAULT_MASTER_KEY, purpose)
        return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], row.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise UnsealError("does not open with this master key and row") from error
