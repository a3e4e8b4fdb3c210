"""The form of statistics and health events in the shared cache.

Entries carry a version; readers skip those of another version and what they cannot parse. Moments
are written as ages in seconds, so that no two clocks need to agree.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from redis.client import Pipeline

from gateway.shared_cache import cache_key
from routing.selection.measurements.endpoint_counter import EndpointCounter
from routing.selection.measurements.window import parse_counters
from routing.statistics.observation import HealthEvent
from routing.statistics.parked_credentials import CredentialEvent, Doubt

VERSION: Final = 1
_STREAM: Final = "traffic"
# Two finished stretches of `endpoint_samples`, the current one, and a minute to write them down.
STREAM_KEEPS_S: Final = 960
PAGE_ENTRIES: Final = 200
_KINDS: Final = frozenset({"outage", "parked", "well"})
# Older than any window: a larger number is a mistake of the sender.
_AGE_MAX_S: Final = 90_000.0


class StreamEntry(NamedTuple):
    """What one process counted, by endpoint, and the health events it met. Also the credentials
    that it parked, and those that it doubts, by the key of credential and endpoint."""

    counters: list[tuple[int, EndpointCounter]]
    events: list[HealthEvent]
    credentials: Sequence[CredentialEvent] = ()
    doubts: Sequence[tuple[int, Doubt]] = ()


def stream_key() -> str:
    """The key of the stream that all processes write to and read."""
    return cache_key(_STREAM)


def append_entry(pipe: "Pipeline", data: bytes, *, name: str, store_ms: int) -> None:
    """Queue an entry of the process `name`, and trim entries too old by the store's clock."""
    oldest = f"{max(0, store_ms - STREAM_KEEPS_S * 1000)}-0"
    fields: dict[Any, Any] = {"p": name, "d": data}
    pipe.xadd(stream_key(), fields, minid=oldest, approximate=True)
    pipe.expire(stream_key(), STREAM_KEEPS_S)


def serialize_entry(
    counters: Iterable[tuple[int, EndpointCounter]],
    events: Iterable[HealthEvent],
    *,
    now: float,
    credentials: Iterable[CredentialEvent] = (),
    doubts: Iterable[tuple[int, Doubt]] = (),
) -> bytes:
    """Write an entry; `now` is read from the same clock as the events' moments."""
    parked = [[each.kind, each.key, round(max(0.0, each.until - now), 3)] for each in credentials]
    doubted = [
        [
            *(each.kind, key, each.account_id.hex),
            *(round(max(0.0, now - each.noted), 3), round(max(0.0, each.until - now), 3)),
        ]
        for key, each in doubts
    ]
    return orjson.dumps(
        {
            "v": VERSION,
            # Keys of their own: who does not know them passes them over.
            **({"c": parked} if parked else {}),
            **({"d": doubted} if doubted else {}),
            "t": [counter.serialize(endpoint) for endpoint, counter in counters],
            "m": [
                [
                    event.kind,
                    event.endpoint,
                    round(now - event.at, 3),
                    # How much is left of a parking.
                    round(max(0.0, event.until - now), 3) if event.kind == "parked" else 0.0,
                ]
                for event in events
            ],
        }
    )


def read_entry(data: bytes, *, at: float) -> StreamEntry:
    """Read an entry that was written at that moment of our clock. Raises `ValueError`."""
    entry = orjson.loads(data)
    if not isinstance(entry, dict) or entry.get("v") != VERSION:
        raise ValueError("of another version")
    rows = entry.get("m")
    if not isinstance(rows, list):
        raise ValueError("no marks")
    parked, doubted = entry.get("c", []), entry.get("d", [])
    if not (isinstance(parked, list) and isinstance(doubted, list)):
        raise ValueError("no parked credentials")
    return StreamEntry(
        parse_counters(entry.get("t")),
        [_parse_event(row, at) for row in rows],
        [_parse_credential(row, at) for row in parked],
        [_parse_doubt(row, at) for row in doubted],
    )


def _parse_credential(row: Any, at: float) -> CredentialEvent:
    try:
        kind, key, left_s = row
    except (TypeError, ValueError) as error:
        raise ValueError("no parked credential") from error
    if kind not in ("refused", "throttled") or type(key) is not int:
        raise ValueError("no known parked credential")
    if not (isinstance(left_s, int | float) and 0 <= left_s <= _AGE_MAX_S):
        raise ValueError("a parked credential of no time")
    return CredentialEvent(kind, key, at + left_s)


def _parse_doubt(row: Any, at: float) -> tuple[int, Doubt]:
    try:
        kind, key, account, age_s, left_s = row
        account_id = UUID(hex=account)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError("no doubted credential") from error
    parking = _parse_credential((kind, key, left_s), at)
    if not (isinstance(age_s, int | float) and 0 <= age_s <= _AGE_MAX_S):
        raise ValueError("a doubted credential of no time")
    return key, Doubt(parking.kind, account_id, at - age_s, parking.until)


def _parse_event(row: Any, at: float) -> HealthEvent:
    try:
        kind, endpoint, age_s, left_s = row
    except TypeError as error:
        raise ValueError("no mark") from error
    if kind not in _KINDS or type(endpoint) is not int:
        raise ValueError("no known mark")
    if not all(isinstance(s, int | float) and 0 <= s <= _AGE_MAX_S for s in (age_s, left_s)):
        raise ValueError("a mark of no time")
    return HealthEvent(kind, endpoint, at - age_s, at + left_s)
