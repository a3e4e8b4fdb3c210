"""How statistics and marks look in the hint store. Versioned: what is of another version, or is no
such thing at all, is passed over by whoever reads it.

Moments are said as ages in seconds, so that no two clocks need to agree.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson
from redis.client import Pipeline

from gateway.shared_cache import cache_key
from routing.selection.measurements.endpoint_counter import EndpointCounter
from routing.selection.measurements.window import parse_counters
from routing.statistics.marks import Mark

VERSION: Final = 1
_STREAM: Final = "traffic"
# Two stretches of the endpoints' history (`routing.statistics.history`) that are over, the one that
# goes on, and a minute to write them down.
STREAM_KEEPS_S: Final = 960
PAGE_ENTRIES: Final = 200
_KINDS: Final = frozenset({"outage", "parked", "well"})
# Older than any window; a number beyond it is a slip or a lie.
_AGE_MAX_S: Final = 90_000.0


class Entry(NamedTuple):
    """What one process counted in a moment, and what it met."""

    tallies: list[tuple[int, EndpointCounter]]
    marks: list[Mark]


def stream() -> str:
    """The key of the stream that all processes write to and read."""
    return cache_key(_STREAM)


def append(pipe: "Pipeline", data: bytes, *, name: str, store_ms: int) -> None:
    """Queue an entry of the process `name`; what is too old by the store's clock goes."""
    oldest = f"{max(0, store_ms - STREAM_KEEPS_S * 1000)}-0"
    fields: dict[Any, Any] = {"p": name, "d": data}
    pipe.xadd(stream(), fields, minid=oldest, approximate=True)
    pipe.expire(stream(), STREAM_KEEPS_S)


def entry_json(
    tallies: Iterable[tuple[int, EndpointCounter]], marks: Iterable[Mark], *, now: float
) -> bytes:
    """An entry; `now` is of the clock of the marks."""
    return orjson.dumps(
        {
            "v": VERSION,
            "t": [tally.serialize(endpoint) for endpoint, tally in tallies],
            "m": [_mark_row(mark, now) for mark in marks],
        }
    )


def read_entry(data: bytes, *, at: float) -> Entry:
    """An entry that was written at that moment of our clock. Raises `ValueError`."""
    said = _object(data)
    marks = said.get("m")
    if not isinstance(marks, list):
        raise ValueError("no marks")
    return Entry(parse_counters(said.get("t")), [_mark(row, at) for row in marks])


def _object(data: bytes) -> dict[str, Any]:
    said = orjson.loads(data)
    if not isinstance(said, dict) or said.get("v") != VERSION:
        raise ValueError("of another version")
    return said


def _mark_row(mark: Mark, now: float) -> list[Any]:
    left_s = max(0.0, mark.until - now) if mark.kind == "parked" else 0.0
    return [mark.kind, mark.endpoint, round(now - mark.at, 3), round(left_s, 3)]


def _mark(row: Any, at: float) -> Mark:
    try:
        kind, endpoint, age_s, left_s = row
    except TypeError as error:
        raise ValueError("no mark") from error
    if kind not in _KINDS or type(endpoint) is not int:
        raise ValueError("no known mark")
    if not all(isinstance(s, int | float) and 0 <= s <= _AGE_MAX_S for s in (age_s, left_s)):
        raise ValueError("a mark of no time")
    return Mark(kind, endpoint, at - age_s, at + left_s)
