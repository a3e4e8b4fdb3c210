"""JSON in and out, with money and times as the API writes them.

orjson parses strictly and fast, but silently turns integers past 64 bits into floats. Where a long
run of digits shows, jiter reads the body again with integers of any length. A number beyond a
double is refused by the first pass.

How deep and how full a text is shows without parsing it. The text is read in pieces of 64 KiB.
`between` is called between two of them, so that a long text does not hold up other requests.
"""

from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import orjson
import pydantic_core

from gateway.http.errors import JsonTooDeep, MalformedJson

Raw: TypeAlias = bytes | bytearray
# As it came over the wire or goes there: nobody has looked at its values yet.
JsonObject: TypeAlias = dict[str, Any]
Between: TypeAlias = Callable[[], object]

_PIECE_BYTES = 65_536
_MARKS = (b"[", b"{", b",", b":")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{},:"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ZEROS = bytes(ord("0") if byte in b"0123456789" else 0 for byte in range(256))


def do_nothing() -> None:
    """For texts that are short, or looked at where nobody waits."""


def is_deeper_than(levels_max: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether arrays and objects nest past `levels_max` in this valid JSON."""
    if raw.count(b"[") + raw.count(b"{") <= levels_max:
        return False
    depth = 0
    for piece in _yield_structure(raw, between):
        depths = list(accumulate(array("b", piece.translate(_STEPS, b",:")), initial=depth))
        if max(depths) > levels_max:
            return True
        depth = depths[-1]
    return False


def is_fuller_than(marks_max: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether more than `marks_max` commas, colons and opening brackets stand outside strings."""
    marks = 0
    for mark in _MARKS:
        marks += raw.count(mark)
        between()
    if marks <= marks_max:
        return False
    marks = 0
    for piece in _yield_structure(raw, between):
        marks += len(piece) - piece.count(b"]") - piece.count(b"}")
        if marks > marks_max:
            return True
    return False


def has_digits_in_a_row(count: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether this many digits stand side by side, in strings too."""
    run = b"0" * count
    if len(raw) <= _PIECE_BYTES:
        return run in raw.translate(_ZEROS)
    for start in range(0, len(raw), _PIECE_BYTES):
        # The pieces overlap, for a run that begins in one and ends in the next.
        if run in raw[start : start + _PIECE_BYTES + count - 1].translate(_ZEROS):
            return True
        between()
    return False


def _yield_structure(raw: Raw, between: Between) -> Iterator[Raw]:
    """Brackets, commas and colons outside strings, in order."""
    in_string = False
    start = 0
    while start < len(raw):
        end = start + _PIECE_BYTES
        piece = raw[start:end]
        # No piece ends between a backslash and what it escapes.
        if piece.endswith(b"\\") and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            end += 1
            piece = raw[start:end]
        start = end
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.translate(None, _NOT_STRUCTURE).split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        between()


DEPTH_MAX = 128
# The fewest digits of an integer past 64 bits.
_LONG_DIGITS = 19


def loads(raw: Raw, between: Between = do_nothing) -> Any:
    """Parse one JSON document; `between` is called between two steps where it is a long one.

    Raises `MalformedJson` for bad syntax, NaN and Infinity, a NUL in a string and a number beyond a
    double. So it does for bytes that are not UTF-8, a BOM and a lone surrogate. Raises
    `JsonTooDeep` for nesting past 128 levels. Of duplicate keys the last counts.
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


def _has_nul(value: object) -> bool:
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


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON; integers of any length are kept exactly."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_long_integers_as_text(value))


def dumps_sorted(value: object) -> bytes:
    """The same for every order of properties."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return orjson.dumps(_long_integers_as_text(value), option=orjson.OPT_SORT_KEYS)


def _long_integers_as_text(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _long_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_long_integers_as_text(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    return value


# The same few prices are written again and again.
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


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-01-31T12:00:00.123Z`."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def format_optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
