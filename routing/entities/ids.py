"""Identifiers the API shows: base64 of random bytes with its two punctuation marks made letters.

Two letters come up twice as often as the others, which costs about one of 120 bits.
"""

import os
import re
import time
from binascii import b2a_base64
from typing import Final

_OWN_REASONING: Final = re.compile(r"rs_[A-Za-z0-9]{32}_[0-9]+")
_LETTERS_ONLY = bytes.maketrans(b"+/", b"aZ")
_SUPPLY_BYTES: Final = 3072
# Of generations that answer decisions, and of those that are embeddings.
DECISIONS_PREFIX: Final = "gen-dec-"
EMBEDDINGS_PREFIX: Final = "gen-emb-"


class _Supply:
    """Random bytes fetched from the system for many ids at once, which saves a call each time. No
    two processes share them: a child begins with none."""

    def __init__(self) -> None:
        self._left = b""
        os.register_at_fork(after_in_child=self.forget)

    def take(self, count: int) -> bytes:
        left = self._left
        if len(left) < count:
            left = os.urandom(_SUPPLY_BYTES)
        self._left = left[count:]
        return left[:count]

    def forget(self) -> None:
        self._left = b""


_supply = _Supply()


def _alphanumerics(count: int) -> str:
    """`count` random characters; a multiple of four."""
    encoded = b2a_base64(_supply.take(count * 3 // 4), newline=False)
    return encoded.translate(_LETTERS_ONLY).decode()


def generation_id(prefix: str = "gen-") -> str:
    """`gen-<unix seconds>-<20 alphanumerics>`."""
    return f"{prefix}{int(time.time())}-{_alphanumerics(20)}"


def tool_call_id() -> str:
    """For an upstream that gave none: `call_<24 alphanumerics>`."""
    return f"call_{_alphanumerics(24)}"


def tool_use_id() -> str:
    """The same on messages: `toolu_<24 alphanumerics>`."""
    return f"toolu_{_alphanumerics(24)}"


def message_id() -> str:
    """For an answer on messages whose upstream gave none: `msg_<24 alphanumerics>`."""
    return f"msg_{_alphanumerics(24)}"


def is_own_reasoning(given: str | None) -> bool:
    """Whether a reasoning item's id was made here, the upstream having named none."""
    return given is not None and _OWN_REASONING.fullmatch(given) is not None
