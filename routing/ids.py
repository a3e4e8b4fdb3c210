"""Identifiers the API shows: base64 of random bytes with its two punctuation marks made letters.

Two letters come up twice as often as the others, which costs about one of 120 bits.
"""

import os
import time
from binascii import b2a_base64

_LETTERS_ONLY = bytes.maketrans(b"+/", b"aZ")


def _alphanumerics(count: int) -> str:
    """`count` random characters; a multiple of four."""
    encoded = b2a_base64(os.urandom(count * 3 // 4), newline=False)
    return encoded.translate(_LETTERS_ONLY).decode()


def generation_id(prefix: str = "gen-") -> str:
    """`gen-<unix seconds>-<20 alphanumerics>`."""
    return f"{prefix}{int(time.time())}-{_alphanumerics(20)}"


def tool_call_id() -> str:
    """For an upstream that gave none: `call_<24 alphanumerics>`."""
    return f"call_{_alphanumerics(24)}"
