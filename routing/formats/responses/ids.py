"""Identifiers of a response and its items: all follow from the generation's own, so that whatever
tells of one generation names it alike and nothing has to be remembered."""

from binascii import b2a_base64
from hashlib import sha256
from typing import Final

_STEM_CHARS: Final = 32
_LETTERS_ONLY: Final = bytes.maketrans(b"+/", b"aZ")


def stem_of(generation_id: str) -> str:
    """32 alphanumerics that belong to this generation."""
    digest = b2a_base64(sha256(generation_id.encode()).digest(), newline=False)
    return digest.translate(_LETTERS_ONLY)[:_STEM_CHARS].decode()


def response_id(stem: str) -> str:
    return f"resp_{stem}"


def item_id(prefix: str, stem: str, output_index: int) -> str:
    """`msg_...`, `rs_...`, `fc_...` or `ig_...`."""
    return f"{prefix}_{stem}_{output_index}"
