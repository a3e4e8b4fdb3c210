"""Answers that others may have: what is stored of one and under which name, and those on their way
in this process. They are in the shared cache, or in this process where there is none.

There are `ROUTER_RESPONSE_CACHE_ENTRIES` places, and the name of an answer says which one is its
own. What comes later to the same place takes it. Whatever the shared cache does is a miss.
"""

import hashlib
import threading
import time
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from django.conf import settings
from orjson import loads

from gateway.http.jsonio import JsonObject, dumps, dumps_sorted
from gateway.sealing import UnsealError, seal_bytes, unseal_bytes
from gateway.shared_cache import cache_key, shared_cache

_PURPOSE = "response-cache"
# Streams repeat themselves, and a little effort finds most of it.
_EFFORT = 1
# To write and hash larger bodies would hold up everybody else.
BODY_CHARS_MAX = 1_048_576
# A value takes at least as long as this many characters.
_VALUE_CHARS = 32


class Entry(NamedTuple):
    """An answer as its caller had it, in full, and what its record said of it. Times are Unix
    seconds."""

    generation_id: str
    stored_at: float
    ttl_s: int
    model: str
    provider_name: str | None
    endpoint_tag: str | None
    finish_reason: str | None
    native_finish: str | None
    content: bytes

    @property
    def age_s(self) -> int:
        return max(0, int(time.time() - self.stored_at))

    @property
    def left_s(self) -> int:
        return max(0, self.ttl_s - self.age_s)


def build_entry_name(
    owner: object,
    *,
    is_sorted: bool = False,
    kind: str,
    model: str,
    stream: bool,
    bodies: tuple[Mapping[str, Any] | None, ...],
    beside: str = "",
) -> str:
    """The name of the answer to one request. Another owner, another endpoint or another body has
    another name. The order of a body's properties counts unless it is to be sorted."""
    digest, write = hashlib.sha256(), dumps_sorted if is_sorted else dumps
    for body in bodies:
        digest.update(hashlib.sha256(write(body)).digest())
    parts = (str(owner), kind, model, str(stream), beside, digest.hexdigest())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_small(body: Mapping[str, Any], chars_max: int = BODY_CHARS_MAX) -> bool:
    """Whether it takes only a moment to name a body. Its characters, and some for each value, are
    counted up to the bound."""
    chars_left, waiting = chars_max, list[Any]([body])
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, str):
            chars_left -= len(value)
        elif isinstance(value, dict | list):
            chars_left -= _VALUE_CHARS * len(value)
        elif isinstance(value, int):
            chars_left -= value.bit_length() // 3
        if chars_left < 0:
            return False
        if isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return True


def pack_entry(entry: Entry, name: str) -> bytes:
    """Sealed for that name: what is found under another one does not open."""
    head = dumps(entry._replace(content=b"")._asdict() | {"content": ""})
    return seal_bytes(
        zlib.compress(head + b"\n" + entry.content, _EFFORT), purpose=_PURPOSE, row=name
    )


def unpack_entry(sealed: bytes, name: str) -> Entry | None:
    """None for what was kept under another name, or has run out."""
    try:
        opened = zlib.decompress(unseal_bytes(sealed, purpose=_PURPOSE, row=name))
    except (UnsealError, zlib.error):
        return None
    head, _, content = opened.partition(b"\n")
    entry = Entry(**{**loads(head), "content": content})
    return entry if time.time() < entry.stored_at + entry.ttl_s else None


_DATA: Final = b"data: "
_DONE: Final = b"[DONE]"
_TIMES: Final = ("created", "created_at", "completed_at")
# Where answers stand inside of events.
_INNER: Final = ("message", "response")


def repeat_answer(
    content: bytes,
    *,
    ids: dict[str, str],
    now: int,
    router_metadata: JsonObject | None = None,
) -> bytes:
    """A whole answer's body. `ids` are the new ones by the kind of object that has them: "chat",
    "message" and "response". `router_metadata` takes the place of the first answer's."""
    answer = _renew_all(loads(content), ids, now)
    if router_metadata is not None:
        answer["router_metadata"] = router_metadata
    return dumps(answer)


def repeat_events(
    content: bytes,
    *,
    ids: dict[str, str],
    now: int,
    router_metadata: JsonObject | None = None,
) -> bytes:
    """The events of a stream, its keep-alives left out. `router_metadata` stands in the last one,
    or in the answer inside of it, as in any stream."""
    lines = [line for line in content.split(b"\n") if not line.startswith(b":")]
    is_last = router_metadata is not None
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place]
        if not line.startswith(_DATA) or line == _DATA + _DONE:
            continue
        event = _renew_all(loads(line.removeprefix(_DATA)), ids, now)
        if is_last:
            event.get("response", event)["router_metadata"] = router_metadata
            is_last = False
        lines[place] = _DATA + dumps(event)
    # Nothing is left of a block that was a keep-alive.
    blocks = filter(None, b"\n".join(lines).split(b"\n\n"))
    return b"".join(block.lstrip(b"\n") + b"\n\n" for block in blocks)


def _renew_all(answer: JsonObject, ids: dict[str, str], now: int) -> JsonObject:
    """An answer or an event, and the answer that stands inside of it."""
    inner = [answer[name] for name in _INNER if isinstance(answer.get(name), dict)]
    for each in (answer, *inner):
        kind = _find_kind(each)
        if kind is not None and "id" in each:
            each["id"] = ids[kind]
        for name in _TIMES:
            if isinstance(each.get(name), int):
                each[name] = now
        each.pop("router_metadata", None)
        if isinstance(each.get("usage"), dict):
            each["usage"] = zero_usage(each["usage"])
    return answer


def _find_kind(answer: JsonObject) -> str | None:
    if str(answer.get("object", "")).startswith("chat.completion"):
        return "chat"
    if answer.get("object") == "list" and "data" in answer:
        # Embeddings, which are named after their generation.
        return "chat"
    if answer.get("object") == "response":
        return "response"
    return "message" if answer.get("type") == "message" and "role" in answer else None


def zero_usage(usage: object) -> Any:
    """The same with nothing used and nothing to pay."""
    if isinstance(usage, dict):
        return {name: zero_usage(value) for name, value in usage.items()}
    if isinstance(usage, list):
        return [zero_usage(value) for value in usage]
    if isinstance(usage, bool):
        return False
    return 0 if isinstance(usage, int | float) else usage


class LocalStore:
    """The places of one process. Values are sealed, and each lives for its own time. The oldest
    goes where all are larger than so many answers may be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[int, tuple[float, bytes]] = {}
        self._bytes = 0

    def find(self, place: int) -> bytes | None:
        with self._lock:
            until, value = self._values.get(place, (0.0, b""))
            if until > time.monotonic():
                return value
            self._drop(place)
            return None

    def put(self, place: int, value: bytes, ttl_s: int) -> None:
        entries_max = settings.ROUTER_RESPONSE_CACHE_ENTRIES
        bytes_max = entries_max * settings.ROUTER_RESPONSE_CACHE_ENTRY_BYTES
        with self._lock:
            self._drop(place)
            self._values[place] = (time.monotonic() + ttl_s, value)
            self._bytes += len(value)
            while self._bytes > bytes_max and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def _drop(self, place: int) -> None:
        self._bytes -= len(self._values.pop(place, (0.0, b""))[1])


@cache
def _shelf() -> LocalStore:
    return LocalStore()


def find(name: str) -> bytes | None:
    """What stands in the place of that name."""
    store = shared_cache()
    if not store.is_configured:
        return _shelf().find(_place(name))
    # Answers are larger than hints: how long they take says nothing of those.
    value: Any = store.run(
        lambda redis: redis.get(_place_key(name)), None, limit_s=settings.REDIS_TIMEOUT
    )
    return value if isinstance(value, bytes) else None


def put(name: str, value: bytes, *, ttl_s: int) -> None:
    """Keep it for that long."""
    store = shared_cache()
    if not store.is_configured:
        _shelf().put(_place(name), value, ttl_s)
        return
    store.run(
        lambda redis: redis.set(_place_key(name), value, ex=ttl_s),
        None,
        limit_s=settings.REDIS_TIMEOUT,
    )


def forget_all() -> None:
    """Of this process."""
    _shelf.cache_clear()


def _place(name: str) -> int:
    return int(name[:15], 16) % settings.ROUTER_RESPONSE_CACHE_ENTRIES


def _place_key(name: str) -> str:
    return f"{cache_key('answers')}:{_place(name)}"


# --- Requests under way, by the name that their answer would be kept under ------------------------


class Flight:
    """One request under way. Once it `has_landed`, `entry` is its answer; None where it failed, or
    `is_private`: nobody else may have it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry: Entry | None = None
        self.is_private = False
        self.has_landed = threading.Event()


class Flights:
    """All of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Flight] = {}

    def join(self, name: str) -> tuple[Flight, bool]:
        """The flight of that name, and whether it is a new one that the caller must land."""
        with self._lock:
            flight = self._under_way.get(name)
            if flight is not None:
                return flight, False
            flight = self._under_way[name] = Flight(name)
            return flight, True

    def land(self, flight: Flight) -> None:
        """Tell those who wait that the request has ended, or that they wait in vain. May be called
        again."""
        with self._lock:
            if self._under_way.get(flight.name) is flight:
                del self._under_way[flight.name]
        flight.has_landed.set()


flights = Flights()
