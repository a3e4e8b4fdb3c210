"""What only the simulated provider can read: signatures, redacted and encrypted reasoning."""

from base64 import b64decode, b64encode
from zlib import crc32


def sealed(text: str) -> str:
    """The text with a checksum, as base64."""
    data = text.encode("utf-8", "replace")
    return b64encode(b"%08x" % crc32(data) + data).decode()


def unsealed(token: object) -> str | None:
    """What was sealed, or None for anything that was not, or was changed since."""
    if not isinstance(token, str):
        return None
    try:
        whole = b64decode(token, validate=True)
        checksum = int(whole[:8], 16)
    except ValueError:
        return None
    return whole[8:].decode() if crc32(whole[8:]) == checksum and len(whole) > 8 else None
