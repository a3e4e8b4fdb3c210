"""Secrets at rest: AES-256-GCM under a key derived from VAULT_MASTER_KEY, bound to their row.

A sealed value copied into another row does not open there: the row's name is authenticated with it.
What was sealed under a former master key (`VAULT_FORMER_MASTER_KEYS`) still opens. `reseal` and
`reseal_bytes` move it to the current one. Data keys have `seal_under` and `unseal_under`.
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
_DATA_KEY_BYTES = 32


class UnsealError(ValueError):
    """The value was sealed under another master key, for another row, or was changed."""


@lru_cache(maxsize=8)
def _cipher(master_key: str, purpose: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
    return AESGCM(derived.derive(master_key.encode()))


@lru_cache(maxsize=8)
def _derive_key_id(master_key: str) -> str:
    derived = HKDF(algorithm=SHA256(), length=8, salt=None, info=b"master-key-id")
    return derived.derive(master_key.encode()).hex()


def master_key_id() -> str:
    """The name of the current master key; it reveals nothing of the key itself."""
    return _derive_key_id(settings.VAULT_MASTER_KEY)


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
    return _decrypt_any(sealed[len(_VERSION) :], purpose, row)


def unseal(sealed: str, *, purpose: str, row: str) -> str:
    """The plaintext of `seal`. Raises `UnsealError`."""
    if not sealed.startswith(_VERSION):
        raise UnsealError("unknown form")
    try:
        encoded = sealed.removeprefix(_VERSION)
        raw = base64.b64decode(encoded, validate=True)
        if base64.b64encode(raw).decode() != encoded:
            raise UnsealError("changed")  # The last letter may hold bits that decode to nothing.
        return _decrypt_any(raw, purpose, row).decode()
    except ValueError as error:
        raise UnsealError("does not open with this master key and row") from error


def reseal(sealed: str, *, purpose: str, row: str) -> str | None:
    """The same value under the current master key; None where it is. Raises `UnsealError`."""
    plaintext = unseal(sealed, purpose=purpose, row=row)
    raw = base64.b64decode(sealed.removeprefix(_VERSION))
    if _can_decrypt(_cipher(settings.VAULT_MASTER_KEY, purpose), raw, row):
        return None
    return seal(plaintext, purpose=purpose, row=row)


def reseal_bytes(sealed: bytes, *, purpose: str, row: str) -> bytes | None:
    """`reseal` for what `seal_bytes` sealed."""
    plaintext = unseal_bytes(sealed, purpose=purpose, row=row)
    if _can_decrypt(_cipher(settings.VAULT_MASTER_KEY, purpose), sealed[len(_VERSION) :], row):
        return None
    return seal_bytes(plaintext, purpose=purpose, row=row)


def _decrypt_any(raw: bytes, purpose: str, row: str) -> bytes:
    # Under the current master key first, then the former ones.
    for key in (settings.VAULT_MASTER_KEY, *settings.VAULT_FORMER_MASTER_KEYS):
        cipher = _cipher(key, purpose)
        try:
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], row.encode())
        except (InvalidTag, ValueError):
            continue
    raise UnsealError("does not open with this master key and row")


def _can_decrypt(cipher: AESGCM, raw: bytes, row: str) -> bool:
    try:
        cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], row.encode())
    except (InvalidTag, ValueError):
        return False
    return True


# --- Under a data key -----------------------------------------------------------------------------


def new_data_key() -> bytes:
    """256 random bits."""
    return secrets.token_bytes(_DATA_KEY_BYTES)


def seal_under(data_key: bytes, plaintext: str, *, name: str) -> str:
    """Encrypt under the data key; `name` is authenticated with it."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = AESGCM(data_key).encrypt(nonce, plaintext.encode(), name.encode())
    return _VERSION + base64.b64encode(nonce + sealed).decode()


def unseal_under(data_key: bytes, sealed: str, *, name: str) -> str:
    """The plaintext of `seal_under`. Raises `UnsealError`."""
    if not sealed.startswith(_VERSION):
        raise UnsealError("unknown form")
    try:
        raw = base64.b64decode(sealed.removeprefix(_VERSION), validate=True)
        opened = AESGCM(data_key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], name.encode())
    except (InvalidTag, ValueError) as error:
        raise UnsealError("does not open with this data key and name") from error
    return opened.decode()
