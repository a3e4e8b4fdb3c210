"""The long windows in the shared cache, for new processes: endpoints' last half hour and last day.

For ten thousand busy endpoints this is some megabytes. So it is written and read in pages, a call
each, and others run in between. Two places are written alternately; the head names the complete
one.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from typing import Any, Final, NamedTuple

import orjson
import redis

from gateway.eventloop import yield_control
from gateway.shared_cache import SharedCache, cache_key
from routing.selection.measurements.window import unpack_piece
from routing.statistics.observation import Observer

VERSION: Final = 2
KEEPS_S: Final = 90_000
# No request waits for these calls, so they may take longer.
LIMIT_S: Final = 1.0
# Shorter than the two minutes after which a place may be written again.
LOAD_S: Final = 60.0
_PAGE_BYTES: Final = 131_072
_PAGE_PIECES: Final = 16
_PIECES_MAX: Final = 100_000


class Head(NamedTuple):
    """Which place has the windows and how many `pieces`. They were written at `at_ms` of the
    store's time and include all stream entries up to `entry_id`."""

    entry_id: str
    at_ms: int
    place: int
    pieces: int


def head_key() -> str:
    """The key of the head."""
    return cache_key("traffic:long")


def place_key(place: int) -> str:
    """The key of the pieces of a place."""
    return f"{head_key()}:{place}"


def serialize_head(head: Head) -> bytes:
    return orjson.dumps({"v": VERSION, **head._asdict()})


def read_head(data: bytes) -> Head:
    """Read what `serialize_head` wrote. Raises `ValueError`."""
    fields = orjson.loads(data)
    if not isinstance(fields, dict) or fields.pop("v", None) != VERSION:
        raise ValueError("long windows of another version")
    if set(fields) != set(Head._fields):
        raise ValueError("no head of long windows")
    head = Head(**fields)
    numbers = (head.at_ms, head.place, head.pieces)
    if not (isinstance(head.entry_id, str) and all(type(number) is int for number in numbers)):
        raise ValueError("no head of long windows")
    if head.place not in (0, 1) or not 0 <= head.pieces <= _PIECES_MAX:
        raise ValueError("a head of nothing")
    return head


class LongWindows:
    """Publishes and loads the long windows of one process. `clock` is that of the windows."""

    def __init__(
        self, observer: Observer, store: SharedCache, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer = observer
        self._hints = store
        self._clock = clock

    def publish(self, *, entry_id: str, at_ms: int) -> bool:
        """Write the windows of this process; whether the store took all of it."""
        place = self._run(_empty_free_place, None)
        if place is None:
            return False
        pieces = 0
        for page in self._dump_pages():
            if not self._run(partial(_append_page, place=place, page=page), False):
                return False
            pieces += len(page)
        head = serialize_head(Head(entry_id, at_ms, place, pieces))
        return bool(self._run(lambda store: store.set(head_key(), head, ex=KEEPS_S), False))

    def load(self, head: Head, *, then: float) -> bool:
        """Add the windows of the head, written at `then` of our clock; whether all came in time.

        Raises `ValueError` for what cannot be read.
        """
        pieces: list[bytes] = []
        until, name = self._clock() + LOAD_S, place_key(head.place)
        for start in range(0, head.pieces, _PAGE_PIECES):
            last = min(start + _PAGE_PIECES, head.pieces) - 1
            page = self._run(methodcaller("lrange", name, start, last), None)
            if not page or len(page) != last - start + 1 or self._clock() > until:
                # Half a window would mislead more than none.
                return False
            pieces += page
            yield_control()
        windows = (self._observer.half_hour, self._observer.day)
        for piece in pieces:
            which, age, packed = piece.split(b" ", 2)
            if which not in (b"0", b"1"):
                raise ValueError("no such window")
            window, pairs = windows[int(which)], unpack_piece(packed)
            window.add(window.number_at(then) - int(age), pairs)
            self._observer.touch(endpoint for endpoint, _ in pairs)
            yield_control()
        return True

    def _dump_pages(self) -> Iterator[list[bytes]]:
        """Pieces of both windows: which window, how many slices ago, the packed slice."""
        page: list[bytes] = []
        size, now = 0, self._clock()
        for which, window in enumerate((self._observer.half_hour, self._observer.day)):
            for number, packed in window.dump_pieces():
                page.append(b"%d %d " % (which, window.number_at(now) - number) + packed)
                size += len(page[-1])
                if size >= _PAGE_BYTES:
                    yield page
                    page, size = [], 0
                yield_control()
        if page:
            yield page

    def _run(self, work: Callable[["redis.Redis"], Any], default: object) -> Any:
        return self._hints.run(work, default, limit_s=LIMIT_S, knocks=True)


def _empty_free_place(store: "redis.Redis") -> int:
    """Empty the place that the head does not name, and return it."""
    data = store.get(head_key())
    try:
        place = 1 - read_head(data).place if isinstance(data, bytes) else 0
    except ValueError:
        place = 0
    store.unlink(place_key(place))
    return place


def _append_page(store: "redis.Redis", place: int, page: list[bytes]) -> bool:
    pipe = store.pipeline(transaction=False)
    pipe.rpush(place_key(place), *page)
    pipe.expire(place_key(place), KEEPS_S)
    return bool(pipe.execute())
