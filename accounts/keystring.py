"""The key string: prefix, 56 random hex digits, 8 hex digits of the CRC-32 of all before them.

The checksum tells a mistyped or made-up key without a query; it protects nothing. The 224 random
bits do, and only the SHA-256 of the whole string is kept.
"""

import hashlib
import secrets
from zlib import crc32

_RANDOM_BYTES = 28
_HEX_DIGITS = 64


def generate_key(prefix: str) -> str:
    head = prefix + secrets.token_hex(_RANDOM_BYTES)
    return head + _checksum(head)


def _checksum(head: str) -> str:
    return f"{crc32(head.encode()):08x}"


def is_well_formed(key: str, prefix: str) -> bool:
    """Whether prefix, length and checksum fit."""
    if not key.isascii() or not key.startswith(prefix) or len(key) != len(prefix) + _HEX_DIGITS:
        return False
    return _checksum(key[:-8]) == key[-8:]


def hash_key(key: str) -> str:
    """The key's public identifier: SHA-256 of the string, 64 lowercase hex digits."""
    return hashlib.sha256(key.encode()).hexdigest()


def label_key(key: str, prefix: str) -> str:
    """The masked form shown to people, e.g. `sk-rt-v1-au7...890`."""
    return f"{key[: len(prefix) + 3]}...{key[-3:]}"


def is_token(credential: str) -> bool:
    """Whether it is written as a token, which no key is."""
    return credential.startswith("eyJ") and credential.count(".") == 2 and credential.isascii()
