"""JSON, text and events as bytes, and seals that only the simulated provider can read."""

import json
from base64 import b64decode, b64encode
from typing import Any, TypeAlias
from zlib import crc32

JsonObject: TypeAlias = dict[str, Any]


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encode_text(text: str) -> bytes:
    # A lone surrogate echoed from the prompt has no UTF-8 form.
    return text.encode("utf-8", "replace")


def write_event(name: str, value: object) -> bytes:
    """One server-sent event; without a name it has no `event` line."""
    label = f"event: {name}\n" if name else ""
    return encode_text(f"{label}data: {dumps(value)}\n\n")


def seal(text: str) -> str:
    """The text with a checksum, as base64."""
    data = text.encode("utf-8", "replace")
    return b64encode(b"%08x" % crc32(data) + data).decode()


def unseal(token: object) -> str | None:
    """What was sealed, or None for anything that was not, or was changed since."""
    if not isinstance(token, str):
        return None
    try:
        whole = b64decode(token, validate=True)
        checksum = int(whole[:8], 16)
    except ValueError:
        return None
    return whole[8:].decode() if crc32(whole[8:]) == checksum and len(whole) > 8 else None
