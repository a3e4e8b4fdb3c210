"""JSON in and out.

orjson parses strictly and fast, but silently turns integers past 64 bits into floats; where a long
run of digits shows, jiter reads the body again with integers of any length. A number beyond a
double is refused by the first pass.
"""

from functools import lru_cache
from typing import Any

import orjson
import pydantic_core

from gateway.http.errors import JsonTooDeep, MalformedJson
from gateway.http.structure import Between, Raw, do_nothing, has_digits_in_a_row, is_deeper_than

DEPTH_MAX = 128
# The fewest digits of an integer past 64 bits.
_LONG_DIGITS = 19


def loads(raw: Raw, between: Between = do_nothing) -> Any:
    """Parse one JSON document; `between` is called between two steps where it is a long one.

    Raises `MalformedJson` for bad syntax, NaN and Infinity, bytes that are not UTF-8, a BOM, a lone
    surrogate, a NUL in a string and a number beyond a double, `JsonTooDeep` for nesting past 128
    levels. Of duplicate keys the last counts.
    """
    try:
        exact = has_digits_in_a_row(_LONG_DIGITS, raw, between)
        value = orjson.loads(raw)
        if exact:
            between()
            value = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        # Both parsers have limits of their own, far beyond ours.
        raise (JsonTooDeep if "limit exceeded" in str(error) else MalformedJson) from error
    if is_deeper_than(DEPTH_MAX, raw, between):
        raise JsonTooDeep
    if rb"\u0000" in raw and _has_nul(value):
        raise MalformedJson
    return value


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


# The same few prices are told again and again.
@lru_cache(maxsize=4096)
def format_usd(amount_nano: int) -> str:
    """Nano-USD as a plain decimal: at most 9 places, never an exponent."""
    sign = "-" if amount_nano < 0 else ""
    whole, fraction = divmod(abs(amount_nano), 1_000_000_000)
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:09d}".rstrip("0")


def usd(amount_nano: int) -> orjson.Fragment:
    """Nano-USD as a JSON number that is exact in text."""
    return orjson.Fragment(format_usd(amount_nano))
