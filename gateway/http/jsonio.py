"""JSON in and out.

orjson parses strictly and fast, but silently turns integers past 64 bits into floats; where a long
run of digits shows, jiter reads the body again with integers of any length. A number beyond a
double is refused by the first pass.
"""

import re
from array import array
from itertools import accumulate
from typing import Any

import orjson
import pydantic_core

from gateway.http.errors import MalformedJson

DEPTH_MAX = 128
_LONG_DIGITS = re.compile(rb"\d{19}")
_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_STRINGS = re.compile(rb'"[^"]*"')
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def loads(raw: bytes) -> Any:
    """Parse one JSON document.

    Raises `MalformedJson` for bad syntax, NaN and Infinity, bytes that are not UTF-8, a BOM, a lone
    surrogate, a NUL in a string, a number beyond a double and nesting past 128 levels. Of duplicate
    keys the last counts.
    """
    try:
        value = orjson.loads(raw)
        if _LONG_DIGITS.search(raw):
            value = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise MalformedJson from error
    if _too_deep(raw) or (rb"\u0000" in raw and _has_nul(value)):
        raise MalformedJson
    return value


def _too_deep(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_MAX:
        return False
    bare = _ESCAPES.sub(b"", raw) if b"\\" in raw else raw
    brackets = _STRINGS.sub(b"", bare.translate(None, _NOT_STRUCTURE)).translate(_STEPS)
    return max(accumulate(array("b", brackets)), default=0) > DEPTH_MAX


def _has_nul(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if "\x00" in item:
                return True
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON; integers of any length are kept exactly."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_long_integers_as_text(value))


def _long_integers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _long_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_long_integers_as_text(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    return value


def usd_text(amount_nano: int) -> str:
    """Nano-USD as a plain decimal: at most 9 places, never an exponent."""
    sign = "-" if amount_nano < 0 else ""
    whole, fraction = divmod(abs(amount_nano), 1_000_000_000)
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:09d}".rstrip("0")


def usd(amount_nano: int) -> orjson.Fragment:
    """Nano-USD as a JSON number that is exact in text."""
    return orjson.Fragment(usd_text(amount_nano))
